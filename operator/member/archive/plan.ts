/**
 * Plans the Secrets with which a member writes to the archive and reads its restore source. The operator issues a
 * Secret before a pod mounts it. Pure.
 */
import type { StatefulSet } from '../../../cluster/index.ts'
import type { ObservedMember } from '../observed.ts'
import { templateAnnotation } from '../pod/stateful-set.ts'
import type { ArchiveAction } from './actions.ts'
import { archiveOf } from './settings.ts'
import { archiveSourceOf } from './source.ts'

type Template = NonNullable<StatefulSet['spec']>['template']

const mounts = (template: Template | undefined, secret: string): boolean =>
  template?.spec?.volumes?.some(volume => volume.secret?.secretName === secret) ?? false

export function planArchive(observed: ObservedMember): ArchiveAction[] {
  return [...ofMember(observed), ...ofSource(observed)]
}

/** The Secret of the restore source exists until the recovered volume is recorded. */
function ofSource({ instance, children, archiveSource }: ObservedMember): ArchiveAction[] {
  const source = archiveSourceOf(instance)
  if (source !== undefined) return archiveSource === 'good' ? [] : [{ do: 'issue-archive-source', source }]
  const secret = children.archiveSource
  if (secret === undefined || secret.metadata.deletionTimestamp !== undefined || instance.status?.volume === undefined)
    return []
  const { name, namespace = '', uid = '' } = secret.metadata
  return [{ do: 'delete', kind: 'Secret', name, namespace, uid }]
}

/** If the member no longer archives, its Secret exists until no pod mounts the Secret. */
function ofMember(observed: ObservedMember): ArchiveAction[] {
  const { instance, podSettings, children, archiveCertificate: state } = observed
  const { archive: secret, statefulSet, pod } = children
  if (archiveOf(instance, podSettings) !== undefined)
    return state === 'absent' || state === 'due' ? [{ do: 'issue-archive-certificate' }] : []
  if (secret === undefined || secret.metadata.deletionTimestamp !== undefined) return []
  const { name, namespace = '', uid = '' } = secret.metadata
  const template = statefulSet?.spec?.template
  const isOfTemplate =
    pod === undefined ||
    pod.metadata.annotations?.[templateAnnotation] === template?.metadata?.annotations?.[templateAnnotation]
  return mounts(template, name) || !isOfTemplate ? [] : [{ do: 'delete', kind: 'Secret', name, namespace, uid }]
}

/** Whether the archive Secrets that the next pod must mount exist. */
export const canMountArchive = ({ instance, podSettings, children }: ObservedMember): boolean =>
  (archiveOf(instance, podSettings) === undefined || children.archive !== undefined) &&
  (archiveSourceOf(instance) === undefined || children.archiveSource !== undefined)
