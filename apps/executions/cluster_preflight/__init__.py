"""Is a cluster one on which plans can be carried out, and if not all of it, what is planned only and why?

`examining` reads and puts the lines together, the modules beside it judge (pure, one for each subject),
`keeping` stores them. Changes nothing in the cluster. The preflight of one plan is `executions.preflight`.
"""
