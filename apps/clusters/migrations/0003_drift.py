import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('clusters', '0002_dumps'),
    ]

    operations = [
        migrations.AddField(
            model_name='cluster',
            name='drift_accepted_at',
            field=models.DateTimeField(help_text='when a person last said that a node is meant to be as it is now', null=True),
        ),
        migrations.CreateModel(
            name='NodeExpectation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('node_uid', models.CharField(max_length=100)),
                ('facts', models.JSONField()),
                ('cluster', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='expectations', to='clusters.cluster')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('cluster', 'node_uid'), name='one_expectation_per_node')],
            },
        ),
    ]
