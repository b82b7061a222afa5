"""Is a cluster one on which plans can be carried out, and if not all of it, what is planned only and why?

`sight` reads, the modules beside it judge (pure, one for each subject), `examining` puts the lines together,
`keeping` stores them. Changes nothing in the cluster. The preflight of one plan is `executions.preflight`.
"""
