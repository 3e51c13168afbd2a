/**
 * The ConfigMap of an instance. The pod's init container reads `instance.json` before every start. The running Postgres
 * reads its own files from the mount at each reload.
 */
import type { Draft } from '../../../cluster/index.ts'
import { childNames, firstMember, type PgVersion, type SizeShape } from '../../../crds/index.ts'
import type { InstanceConfiguration } from '../../../instance/configuration.ts'
import type { DataSource, SnapshotSource } from '../../objects/instance.ts'
import { childMetadata } from '../../objects/ownership.ts'
import { preloadedLibraries, renderWithDigest } from '../../postgres/configuration.ts'
import { archiveCommand } from '../archive/settings.ts'
import type { Member } from '../member.ts'

export const instanceFile = 'instance.json'
/** Annotation of the ConfigMap: the digest of its files. Postgres reports the digest of the files that it has read. */
export const configurationAnnotation = 'espalier.dev/configuration'

type ConfigurationRequest = Member & {
  pgVersion: PgVersion
  shape: SizeShape
  /** What `prepare` may do to a volume that the status does not record yet. */
  origin: 'initialise' | DataSource | undefined
  archives: boolean
}

const copied = ({ id, incarnation, member }: SnapshotSource) => ({
  prepareCopy: true,
  copyOf: id,
  ...(incarnation === undefined ? {} : { copyOfIncarnation: incarnation }),
  ...(member === undefined || member === firstMember ? {} : { copyOfMember: member }),
})

export function configurationDraft(request: ConfigurationRequest): Draft<'ConfigMap'> {
  const { owner, incarnation, number, pgVersion, shape, origin, archives } = request
  const { files, digest } = renderWithDigest(shape, pgVersion, owner.id, archives ? archiveCommand : undefined)
  const configuration: InstanceConfiguration = {
    databaseId: owner.id,
    incarnation,
    ...(number === firstMember ? {} : { member: number }),
    pgVersion,
    initialise: origin === 'initialise',
    ...(typeof origin === 'object' ? (origin.kind === 'snapshot' ? copied(origin) : { recover: origin.recover }) : {}),
    preload: preloadedLibraries,
    files,
  }
  const metadata = childMetadata(owner, childNames.configuration(owner.id, incarnation, number), 'postgres')
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { ...metadata, annotations: { ...metadata.annotations, [configurationAnnotation]: digest } },
    data: { [instanceFile]: JSON.stringify(configuration, undefined, 2), ...files },
  }
}
