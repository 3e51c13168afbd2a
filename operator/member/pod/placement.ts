/**
 * The installation's settings for every database's pod: where it may run, how its image is pulled, and its termination
 * grace period.
 */
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

/** Settings that are not configured are omitted, so that the template is unchanged for installations without them. */
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
  } as Json<Placement> // zod gives omitted properties the type undefined
}
