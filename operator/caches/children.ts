/** The informers of owners' children: only what carries our label, without what nobody reads. One line for another kind. */
import { labels } from '../../crds/index.ts'
import { slimVolume } from '../member/storage/persistent-volume.ts'
import { withForeignFields } from '../objects/foreign-fields.ts'
import { ownerKeyOf } from '../objects/ownership.ts'
import { slimPod } from '../slim.ts'
import type { CacheSet } from './cache-set.ts'
import { byOwner, labelled, one } from './indexes.ts'

const applied = { ...labelled, transform: withForeignFields, indexes: byOwner } as const

export const followChildren = (set: CacheSet) => ({
  statefulSets: set.follow('stateful-sets', 'StatefulSet', applied),
  deployments: set.follow('deployments', 'Deployment', applied),
  pods: set.follow('pods', 'Pod', { ...labelled, transform: slimPod, indexes: { database: byOwner.database } }),
  services: set.follow('services', 'Service', applied),
  networkPolicies: set.follow('network-policies', 'NetworkPolicy', {
    ...applied,
    indexes: { ...byOwner, component: policy => one(policy.metadata.labels?.[labels.component]) },
  }),
  disruptionBudgets: set.follow('disruption-budgets', 'PodDisruptionBudget', applied),
  claims: set.follow('claims', 'PersistentVolumeClaim', { ...labelled, indexes: byOwner }),
  volumes: set.follow('volumes', 'PersistentVolume', { ...labelled, transform: slimVolume, indexes: byOwner }),
  configMaps: set.follow('config-maps', 'ConfigMap', {
    ...applied,
    indexes: { ...byOwner, ownerKey: configMap => one(ownerKeyOf(configMap)) },
  }),
})
