/** How the check of a backup's copy stands: by the caches, and where the backup is being deleted by the cluster itself. */
import type { AnyObject, Cluster, Pod } from '../../../cluster/index.ts'
import { type Backup, childNames, labels, type PgVersion } from '../../../crds/index.ts'
import type { Caches } from '../../caches.ts'
import { ownerKeyOf, ownerKindOf } from '../../objects/ownership.ts'
import type { VerificationFacts, VerifierEnd } from '../observed.ts'
import { verifierContainer } from './drafts.ts'

/** Kubernetes keeps no more of a termination message. */
const longestMessage = 4_096

export const verificationKinds = ['Pod', 'PersistentVolumeClaim', 'NetworkPolicy'] as const

/** What is not marked as made for this check is neither used nor touched, whatever its name. */
export const isOfVerification = ({ metadata }: Backup, object: Pick<AnyObject, 'metadata'>): boolean =>
  ownerKindOf(object) === 'Backup' &&
  ownerKeyOf(object) === `${metadata.namespace}/${metadata.name}` &&
  object.metadata.labels?.[labels.component] === 'verification'

const none: VerificationFacts = { isThere: false, claim: false, pod: undefined, isTurn: false, place: undefined }

export async function verificationFacts(
  caches: Caches,
  cluster: Cluster,
  backup: Backup,
  id: string | undefined,
  source: { region: string; pgVersion: PgVersion } | undefined,
  isTurn: (backup: Backup) => boolean,
): Promise<VerificationFacts> {
  if (id === undefined) return none
  const key = { namespace: backup.metadata.namespace, name: childNames.verification(id) }
  const ours = <T extends Pick<AnyObject, 'metadata'>>(object: T | undefined): T | undefined =>
    object !== undefined && isOfVerification(backup, object) ? object : undefined
  const isLeaving = backup.metadata.deletionTimestamp !== undefined
  const [pod, claim, fence] = isLeaving
    ? await Promise.all([
        cluster.get('Pod', key),
        cluster.get('PersistentVolumeClaim', key),
        cluster.get('NetworkPolicy', key),
      ])
    : [caches.pods.get(key), caches.claims.get(key), caches.networkPolicies.get(key)]
  const verifier = ours(pod)
  return {
    isThere: [verifier, ours(claim), ours(fence)].some(object => object !== undefined),
    claim: ours(claim) !== undefined,
    pod: verifier && {
      isGoing: verifier.metadata.deletionTimestamp !== undefined,
      madeAt: Date.parse(verifier.metadata.creationTimestamp ?? ''),
      end: endOf(verifier),
    },
    isTurn: backup.status?.verification === 'pending' && isTurn(backup),
    place: placeFor(caches, backup, source),
  }
}

/** A kept backup says itself which Postgres it is of, and where; an older one is where there is one region. */
function placeFor(
  { regions }: Caches,
  { status }: Backup,
  source: { region: string; pgVersion: PgVersion } | undefined,
): VerificationFacts['place'] {
  if (status?.verification !== 'pending') return undefined
  const pgVersion = source?.pgVersion ?? status.pgVersion
  const all = regions.list()
  const name = source?.region ?? status.region
  const region = name === undefined ? (all.length === 1 ? all[0] : undefined) : regions.get({ name })
  return pgVersion === undefined || region === undefined ? undefined : { pgVersion, region }
}

function endOf({ status }: Pod): VerifierEnd | undefined {
  if (status?.phase !== 'Succeeded' && status?.phase !== 'Failed') return undefined
  const ended = status.containerStatuses?.find(({ name }) => name === verifierContainer)?.state?.terminated
  // A pod that its node put out has no containers to tell of.
  const told = ended?.message ?? [status.reason, status.message].filter(text => text).join(': ')
  return { exitCode: ended?.exitCode ?? -1, message: told.trim().slice(0, longestMessage) }
}
