/**
 * The ConfigMap that tells an instance what it is: `instance.json`, read by its init container before every start, and
 * Postgres's own files, which the running server reads where they are mounted when it is told to reload.
 */
import type { Draft } from '../../../cluster/index.ts'
import { childNames, type PgVersion, type SizeShape } from '../../../crds/index.ts'
import type { InstanceConfiguration } from '../../../instance/configuration.ts'
import type { DataSource } from '../../objects/instance.ts'
import { childMetadata, type Owner } from '../../objects/ownership.ts'
import { preloadedLibraries, renderWithDigest } from '../../postgres/configuration.ts'

export const instanceFile = 'instance.json'
/** On the ConfigMap: the digest of its files, which Postgres tells of those it has read. */
export const configurationAnnotation = 'espalier.dev/configuration'

type ConfigurationRequest = {
  owner: Owner
  incarnation: number
  pgVersion: PgVersion
  shape: SizeShape
  /** What may be done to a volume that is not this instance's own yet: only while none has been recorded. */
  origin: 'initialise' | DataSource | undefined
}

const copied = ({ id, incarnation }: DataSource) => ({
  prepareCopy: true,
  copyOf: id,
  ...(incarnation === undefined ? {} : { copyOfIncarnation: incarnation }),
})

export function configurationDraft(request: ConfigurationRequest): Draft<'ConfigMap'> {
  const { owner, incarnation, pgVersion, shape, origin } = request
  const { files, digest } = renderWithDigest(shape, pgVersion, owner.id)
  const configuration: InstanceConfiguration = {
    databaseId: owner.id,
    incarnation,
    pgVersion,
    initialise: origin === 'initialise',
    ...(typeof origin === 'object' ? copied(origin) : {}),
    preload: preloadedLibraries,
    files,
  }
  const metadata = childMetadata(owner, childNames.configuration(owner.id, incarnation), 'postgres')
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { ...metadata, annotations: { ...metadata.annotations, [configurationAnnotation]: digest } },
    data: { [instanceFile]: JSON.stringify(configuration, undefined, 2), ...files },
  }
}
