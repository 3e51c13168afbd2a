/**
 * The informers of owners' children. They have only objects with Espalier's label, without fields that are never read.
 * A new kind needs one line.
 */
import { labels } from '../../crds/index.ts'
import { trimVolume } from '../member/storage/persistent-volume.ts'
import { withForeignFields } from '../objects/foreign-fields.ts'
import { ownerKeyOf } from '../objects/ownership.ts'
import { trimPod } from '../trim.ts'
import type { CacheSet } from './cache-set.ts'
import { byOwner, labelled, one } from './indexes.ts'

const applied = { ...labelled, transform: withForeignFields, indexes: byOwner } as const

export const followChildren = (set: CacheSet) => ({
  statefulSets: set.follow('stateful-sets', 'StatefulSet', applied),
  deployments: set.follow('deployments', 'Deployment', applied),
  pods: set.follow('pods', 'Pod', { ...labelled, transform: trimPod, indexes: { database: byOwner.database } }),
  services: set.follow('services', 'Service', applied),
  networkPolicies: set.follow('network-policies', 'NetworkPolicy', {
    ...applied,
    indexes: { ...byOwner, component: policy => one(policy.metadata.labels?.[labels.component]) },
  }),
  disruptionBudgets: set.follow('disruption-budgets', 'PodDisruptionBudget', applied),
  claims: set.follow('claims', 'PersistentVolumeClaim', { ...labelled, indexes: byOwner }),
  volumes: set.follow('volumes', 'PersistentVolume', { ...labelled, transform: trimVolume, indexes: byOwner }),
  configMaps: set.follow('config-maps', 'ConfigMap', {
    ...applied,
    indexes: { ...byOwner, ownerKey: configMap => one(ownerKeyOf(configMap)) },
  }),
})
