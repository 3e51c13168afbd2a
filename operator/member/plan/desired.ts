/** What every object of a member should be, as far as its size and region are known. */
import type { Draft } from '../../../cluster/index.ts'
import type { Owner } from '../../objects/ownership.ts'
import { stamped } from '../../objects/up-to-date.ts'
import type { ObservedMember } from '../observed.ts'
import type { Role } from '../pod/addresses.ts'
import { type Newest, type Restarts, type RestartsOf, templateMarks } from '../pod/plan/restart-marks.ts'
import { type SizeState, sizeState } from '../pod/plan/size.ts'
import { referenceOf, withTemplate } from '../pod/plan/template.ts'
import { statefulSetDraft, templateAnnotation, withMarks } from '../pod/stateful-set.ts'
import { configurationAnnotation, configurationDraft } from '../postgres/configuration.ts'
import { claimDraft, isAdopted } from '../storage/claim.ts'

export type DesiredMember = Newest & {
  size: SizeState
  claim: Draft<'PersistentVolumeClaim'> | undefined
  configuration: Draft<'ConfigMap'> | undefined
  statefulSet: Draft<'StatefulSet'> | undefined
  restarts: Restarts
}

/** Where the data of a volume come from that is still to be initialised; undefined for one that has data, or waits for its source. */
function originOf({ instance, children: { claim }, isOrphanClaim }: ObservedMember) {
  const { status, dataSource: source, awaitsSource } = instance
  // On a claim that another database had there may be data, which only the volume knows.
  const isFirst = status?.volume === undefined && !isOrphanClaim && !(claim && isAdopted(claim))
  return isFirst ? (source ?? (awaitsSource ? undefined : 'initialise')) : undefined
}

/** `stopped`: no pod is to run. `systemIdentifier`: of the data on the claim, once it is known. */
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
  const member = { owner, incarnation, number, size: effective, pgVersion: spec.pgVersion }
  // A version that is on offer no more goes on with the image it has.
  const image = observed.image ?? referenceOf(observed.children.statefulSet?.spec?.template)
  const configuration = shape && configurationDraft({ ...member, shape, origin: originOf(observed) })
  const volume = status?.volume?.uid ?? observed.children.claim?.metadata.uid
  const newest =
    shape && volume && image
      ? statefulSetDraft({ ...member, image, shape, volume, suspended: stopped, pods: podSettings, role })
      : undefined
  const newestTemplate = newest?.spec?.template.metadata?.annotations?.[templateAnnotation]
  const configurationDigest = configuration?.metadata.annotations?.[configurationAnnotation]
  const restarts = restartsOf({ newestTemplate, image, configurationDigest })
  const marked = newest && withMarks(newest, templateMarks(observed, restarts))
  return {
    size,
    claim: shape && region && claimDraft(member, shape, region, { systemIdentifier, source, node: observed.copyNode }),
    configuration: configuration && stamped(configuration),
    configurationDigest,
    statefulSet: marked && stamped(withTemplate(observed, marked)),
    newestTemplate,
    image,
    restarts,
  }
}
