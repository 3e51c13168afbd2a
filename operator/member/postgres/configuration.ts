/**
 * The ConfigMap that tells an instance what it is: `instance.json`, read by its init container before every start, and
 * Postgres's own files, which the running server reads where they are mounted when it is told to reload.
 */
import type { Draft } from '../../../cluster/index.ts'
import { childNames, firstMember, type PgVersion, type SizeShape } from '../../../crds/index.ts'
import type { InstanceConfiguration } from '../../../instance/configuration.ts'
import type { DataSource } from '../../objects/instance.ts'
import { childMetadata } from '../../objects/ownership.ts'
import { preloadedLibraries, renderWithDigest } from '../../postgres/configuration.ts'
import type { Member } from '../member.ts'

export const instanceFile = 'instance.json'
/** On the ConfigMap: the digest of its files, which Postgres tells of those it has read. */
export const configurationAnnotation = 'espalier.dev/configuration'

type ConfigurationRequest = Member & {
  pgVersion: PgVersion
  shape: SizeShape
  /** What may be done to a volume that is not this instance's own yet: only while none has been recorded. */
  origin: 'initialise' | DataSource | undefined
}

const copied = ({ id, incarnation, member }: DataSource) => ({
  prepareCopy: true,
  copyOf: id,
  ...(incarnation === undefined ? {} : { copyOfIncarnation: incarnation }),
  ...(member === undefined || member === firstMember ? {} : { copyOfMember: member }),
})

export function configurationDraft(request: ConfigurationRequest): Draft<'ConfigMap'> {
  const { owner, incarnation, number, pgVersion, shape, origin } = request
  const { files, digest } = renderWithDigest(shape, pgVersion, owner.id)
  const configuration: InstanceConfiguration = {
    databaseId: owner.id,
    incarnation,
    ...(number === firstMember ? {} : { member: number }),
    pgVersion,
    initialise: origin === 'initialise',
    ...(typeof origin === 'object' ? copied(origin) : {}),
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
