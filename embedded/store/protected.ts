/**
 * Writes and deletions that the embedded store refuses, as the admission policies of the chart do on Kubernetes
 * (charts/espalier/templates/protection.yaml and protected-metadata.yaml). Pure.
 */
import type { AnyObject, Namespace } from '../../cluster/index.ts'
import { annotations, type Branch, blocksDeletion, labels, type ManagedDatabase } from '../../crds/index.ts'
import { reclaimPolicyAnnotation } from '../../operator/member/storage/persistent-volume.ts'
import type { Component } from '../../operator/objects/ownership.ts'
import type { Admission, AdmissionRequest } from './admission.ts'

const operator = 'espalier-operator'
const api = 'espalier-api'
const collector = 'garbage-collector'
const credentialsComponent: Component = 'credentials'

type WithMetadata = Pick<AnyObject, 'metadata'>

const hasAnnotation = (object: WithMetadata | undefined, name: string): boolean =>
  object?.metadata.annotations?.[name] === 'true'
const isForced = (object: WithMetadata | undefined): boolean => hasAnnotation(object, annotations.force)
const isOfTenant = (namespace: Namespace | undefined): boolean =>
  namespace?.metadata.labels?.[labels.tenant] !== undefined
const isOfDatabase = ({ metadata }: WithMetadata): boolean => metadata.labels?.[labels.database] !== undefined

/**
 * Whether this deletion is part of a permitted namespace deletion: of a tenant's namespace, or of a namespace with
 * `force`.
 */
const isNamespaceDeletion = ({ manager, namespace }: AdmissionRequest): boolean =>
  manager === collector && (isOfTenant(namespace) || isForced(namespace))

/** Whether a client other than the operator deletes a child object without force. */
const isForbiddenDeletion = (request: AdmissionRequest): boolean =>
  isOfDatabase(request.object) &&
  request.manager !== operator &&
  !isForced(request.object) &&
  !isNamespaceDeletion(request)

const refusalText = (kind: string, what: string, instead: string): string =>
  `this ${kind} ${what}: ${instead}, or annotate this ${kind} with ${annotations.force}=true`

const branchesRefusal = `the database has branches (failed branches also count): delete the branches first, or annotate the database with ${annotations.force}=true, which also deletes the branches`

export const protections: Admission = request => {
  const { operation, object, manager } = request
  if (operation !== 'delete') return setsPurpose(request) ? purposeRefusal : undefined
  if (request.propagation === 'Orphan' && isDataOwner(object) && !isOrphan(object)) return orphanRefusal(object)
  switch (object.kind) {
    case 'ManagedDatabase':
      if (object.spec.deletionProtection)
        return 'deletion protection is on: switch it off first (spec.deletionProtection: false)'
      if (manager === api || isForced(object) || isOrphan(object) || isNamespaceDeletion(request)) return undefined
      return hasBranches(object, request.neighbours('Branch')) ? branchesRefusal : undefined
    case 'Namespace':
      return isOfTenant(object) && manager !== operator && !isForced(object)
        ? refusalText(
            'namespace',
            "holds a tenant's databases",
            'delete the Tenant, which waits until the databases are deleted',
          )
        : undefined
    case 'PersistentVolumeClaim':
      return isForbiddenDeletion(request)
        ? refusalText('claim', "holds a database's data", 'delete the database')
        : undefined
    case 'PersistentVolume': {
      const isBound = object.status?.phase === 'Bound'
      const isRetained = object.metadata.annotations?.[reclaimPolicyAnnotation] !== undefined
      return (isBound || isRetained) && isForbiddenDeletion({ ...request, namespace: undefined })
        ? refusalText('volume', "holds a database's data", 'delete the database')
        : undefined
    }
    case 'VolumeSnapshot':
      return isForbiddenDeletion(request)
        ? refusalText('snapshot', 'is a backup of a database', 'delete the Backup')
        : undefined
    case 'Secret':
      return object.metadata.labels?.[labels.component] === credentialsComponent && isForbiddenDeletion(request)
        ? refusalText('Secret', "holds a database's passwords, of which there is no copy", 'delete the database')
        : undefined
    default:
      return undefined
  }
}

/** Whether a client other than the operator sets a backup's purpose. A write may keep the current purpose. */
const setsPurpose = ({ object, previous, manager }: AdmissionRequest): boolean =>
  object.kind === 'Backup' &&
  manager !== operator &&
  object.spec.purpose !== 'user' &&
  (previous?.kind !== 'Backup' || previous.spec.purpose !== object.spec.purpose)

const purposeRefusal = 'spec.purpose: only the operator sets a purpose other than user; omit it, or set user'

/**
 * The policy on Kubernetes reads only the counts in the status. The store also sees a branch that the operator has not
 * counted yet.
 */
const hasBranches = ({ metadata, status }: ManagedDatabase, branches: readonly Branch[]): boolean =>
  Math.max(status?.blockingBranches ?? 0, status?.branchCount ?? 0) > 0 ||
  branches.some(branch => branch.spec.databaseName === metadata.name && blocksDeletion(branch))

const isDataOwner = ({ kind }: AnyObject): boolean =>
  kind === 'ManagedDatabase' || kind === 'Branch' || kind === 'Backup'

const isOrphan = (object: AnyObject): boolean =>
  object.kind === 'ManagedDatabase' && hasAnnotation(object, annotations.orphan)

const orphanRefusal = ({ kind }: AnyObject): string =>
  kind === 'ManagedDatabase'
    ? `to delete only the ManagedDatabase and keep its volume, credentials and backups, first annotate the ManagedDatabase with ${annotations.orphan}=true`
    : 'a Branch or Backup cannot be deleted with --cascade=orphan, because its data is deleted with the object: omit --cascade=orphan'
