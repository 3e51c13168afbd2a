/** The nodes on which the pods of a service may run. Pure. */
import type { Deployment, Json } from '../../cluster/index.ts'
import { labels, parseMemberName } from '../../crds/index.ts'
import { placementOf } from '../member/pod/placement.ts'
import type { Component, Owner } from '../objects/ownership.ts'
import type { PodSettings } from '../pod-settings.ts'

type PodSpec = NonNullable<NonNullable<Deployment['spec']>['template']['spec']>
type Affinity = NonNullable<PodSpec['affinity']>

/**
 * The placement of databases' pods, except their topology spread: services have their own. `hostIds`: members of the
 * database, and nodes, as `status.instances` names them.
 */
export function placementOfServices(
  pods: PodSettings,
  owner: Owner,
  hostIds: readonly string[] | undefined = [],
): Json<Partial<PodSpec>> {
  const { topologySpreadConstraints: _, affinity: given, ...placement } = placementOf(pods)
  const nodes = hostIds.filter(host => parseMemberName('pod', host) === undefined)
  const affinity: Affinity = {
    ...nodeAffinity(given?.nodeAffinity, nodes),
    ...(nodes.length === hostIds.length ? {} : besideMembers(owner)),
  }
  return { ...placement, ...(Object.keys(affinity).length === 0 ? {} : { affinity }) }
}

const weight = 100

/** Only a preference: a service must start even if a host is full or deleted. */
function nodeAffinity(given: Affinity['nodeAffinity'], nodes: readonly string[]): Affinity {
  if (nodes.length === 0) return given === undefined ? {} : { nodeAffinity: given }
  const preferred = nodes.map(node => ({
    weight,
    preference: { matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }] },
  }))
  const others = given?.preferredDuringSchedulingIgnoredDuringExecution ?? []
  return { nodeAffinity: { ...given, preferredDuringSchedulingIgnoredDuringExecution: [...others, ...preferred] } }
}

/** Selects members by labels: a member may move to another node, and a restore gives it another name. */
function besideMembers(owner: Owner): Affinity {
  const postgres: Component = 'postgres'
  const matchLabels = { [labels.database]: owner.id, [labels.component]: postgres }
  const podAffinityTerm = { topologyKey: 'kubernetes.io/hostname', labelSelector: { matchLabels } }
  return { podAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [{ weight, podAffinityTerm }] } }
}
