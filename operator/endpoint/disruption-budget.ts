/**
 * The disruption budget of a database, if the installation requests one. Kubernetes then refuses an eviction (a drain,
 * an autoscaler that shrinks the cluster), which would delete the only pod. A pod that does not run may be evicted.
 */
import type { Draft } from '../../cluster/index.ts'
import { childNames } from '../../crds/index.ts'
import { type Serving, servingSelector } from '../member/pod/addresses.ts'
import { childMetadata, type Owner } from '../objects/ownership.ts'

export function disruptionBudgetDraft(owner: Owner, serving: Serving): Draft<'PodDisruptionBudget'> {
  return {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: childMetadata(owner, childNames.service(owner.id), 'postgres'),
    spec: {
      maxUnavailable: 0,
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
      selector: { matchLabels: servingSelector(owner, serving) },
    },
  }
}
