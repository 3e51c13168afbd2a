/** Where a database's pod may run, how it is pulled and how long it may take to stop: what the installation says of all. */
import type { Json, StatefulSet } from '../../../cluster/index.ts'
import { labels } from '../../../crds/index.ts'
import type { Component } from '../../objects/ownership.ts'
import type { PodSettings } from '../../pod-settings.ts'

type PodSpec = NonNullable<NonNullable<StatefulSet['spec']>['template']['spec']>
type Placement = Pick<
  PodSpec,
  | 'imagePullSecrets'
  | 'priorityClassName'
  | 'nodeSelector'
  | 'tolerations'
  | 'affinity'
  | 'topologySpreadConstraints'
  | 'terminationGracePeriodSeconds'
>

const ofAllDatabases = { matchLabels: { [labels.component]: 'postgres' satisfies Component } }

/** What nothing is said of is left out, so that the template is that of an installation that never heard of it. */
export function placementOf(settings: PodSettings): Json<Placement> {
  const { imagePullSecrets, priorityClassName, nodeSelector, tolerations, affinity } = settings
  const spread = settings.topologySpreadConstraints.map(constraint => ({
    labelSelector: ofAllDatabases,
    ...constraint,
  }))
  return {
    terminationGracePeriodSeconds: settings.terminationGracePeriodSeconds,
    ...(imagePullSecrets.length > 0 ? { imagePullSecrets } : {}),
    ...(priorityClassName === undefined ? {} : { priorityClassName }),
    ...(Object.keys(nodeSelector).length > 0 ? { nodeSelector } : {}),
    ...(tolerations.length > 0 ? { tolerations } : {}),
    ...(affinity === undefined ? {} : { affinity }),
    ...(spread.length > 0 ? { topologySpreadConstraints: spread } : {}),
  } as Json<Placement> // what zod leaves out it types as undefined
}
