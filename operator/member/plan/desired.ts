/**
 * The desired state of a member's objects. An object is undefined while the size, or another fact that it needs, is
 * unknown.
 */
import type { Draft } from '../../../cluster/index.ts'
import type { Owner } from '../../objects/ownership.ts'
import { stamped } from '../../objects/up-to-date.ts'
import { archiveOf } from '../archive/settings.ts'
import type { ObservedMember } from '../observed.ts'
import type { Role } from '../pod/addresses.ts'
import {
  type Newest,
  type Restarts,
  type RestartsOf,
  templateRestartAnnotations,
} from '../pod/plan/restart-annotations.ts'
import { type SizeState, sizeState } from '../pod/plan/size.ts'
import { referenceOf, withTemplate } from '../pod/plan/template.ts'
import { statefulSetDraft, templateAnnotation, withRestartAnnotations } from '../pod/stateful-set.ts'
import { configurationAnnotation, configurationDraft } from '../postgres/configuration.ts'
import { claimDraft, isAdopted, isRecovered } from '../storage/claim.ts'

export type DesiredMember = Newest & {
  size: SizeState
  claim: Draft<'PersistentVolumeClaim'> | undefined
  configuration: Draft<'ConfigMap'> | undefined
  statefulSet: Draft<'StatefulSet'> | undefined
  restarts: Restarts
}

/**
 * The source of the data, for a volume that is not initialised yet. Undefined if the volume has data, or if the source
 * does not exist yet.
 */
function originOf({ instance, children: { claim }, isOrphanClaim }: ObservedMember) {
  const { status, dataSource: source, awaitsSource } = instance
  // Another database's claim may contain data. Only `prepare`, which runs on the volume, can detect this.
  const isFirst = status?.volume === undefined && !isOrphanClaim && !(claim && isAdopted(claim))
  return isFirst ? (source ?? (awaitsSource ? undefined : 'initialise')) : undefined
}

/** `stopped`: no pod may run. `systemIdentifier`: the identifier of the data on the claim's volume, if known. */
export function desiredMember(
  observed: ObservedMember,
  owner: Owner,
  { stopped, systemIdentifier, role }: { stopped: boolean; systemIdentifier: string | undefined; role: Role },
  restartsOf: RestartsOf,
): DesiredMember {
  const { instance, incarnation, number, region, podSettings } = observed
  const { spec, status, dataSource: source } = instance
  const size = sizeState(observed)
  const { effective, shape } = size
  const archive = archiveOf(instance, podSettings)
  const recovers = isRecovered(observed.children.claim)
  const member = { owner, incarnation, number, size: effective, pgVersion: spec.pgVersion }
  // A database whose version the installation no longer offers keeps its image.
  const image = observed.image ?? referenceOf(observed.children.statefulSet?.spec?.template)
  const configuration =
    shape && configurationDraft({ ...member, shape, origin: originOf(observed), archives: archive !== undefined })
  const volume = status?.volume?.uid ?? observed.children.claim?.metadata.uid
  const newest =
    shape && volume && image
      ? statefulSetDraft({
          ...member,
          image,
          shape,
          volume,
          suspended: stopped,
          pods: podSettings,
          archive,
          recovers,
          role,
        })
      : undefined
  const newestTemplate = newest?.spec?.template.metadata?.annotations?.[templateAnnotation]
  const configurationDigest = configuration?.metadata.annotations?.[configurationAnnotation]
  const restarts = restartsOf({ newestTemplate, image, configurationDigest })
  const annotated = newest && withRestartAnnotations(newest, templateRestartAnnotations(observed, restarts))
  return {
    size,
    claim: shape && region && claimDraft(member, shape, region, { systemIdentifier, source, node: observed.copyNode }),
    configuration: configuration && stamped(configuration),
    configurationDigest,
    statefulSet: annotated && stamped(withTemplate(observed, annotated)),
    newestTemplate,
    image,
    restarts,
  }
}
