/** The ConfigMap that tells an instance what it is: `instance.json`, read by its init container before every start. */
import type { Draft } from '../../../cluster/index.ts'
import { childNames, type PgVersion, type SizeShape } from '../../../crds/index.ts'
import type { InstanceConfiguration } from '../../instance/configuration.ts'
import { renderConfiguration } from '../../postgres/configuration.ts'
import { childMetadata, type Owner } from '../ownership.ts'

export const instanceFile = 'instance.json'

export type ConfigurationRequest = {
  owner: Owner
  incarnation: number
  pgVersion: PgVersion
  shape: SizeShape
  /** Whether an empty volume may be initialised: only while none has been recorded. */
  initialise: boolean
}

export function configurationDraft(request: ConfigurationRequest): Draft<'ConfigMap'> {
  const { owner, incarnation, pgVersion, shape, initialise } = request
  const configuration: InstanceConfiguration = {
    databaseId: owner.id,
    incarnation,
    pgVersion,
    initialise,
    files: renderConfiguration(shape, pgVersion),
  }
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: childMetadata(owner, childNames.configuration(owner.id, incarnation), 'postgres'),
    data: { [instanceFile]: JSON.stringify(configuration, undefined, 2) },
  }
}
