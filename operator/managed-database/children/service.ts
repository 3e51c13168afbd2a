/** The Service of a database: one stable name in the cluster, whose selector says which incarnation serves. */
import type { Draft } from '../../../cluster/index.ts'
import { childNames } from '../../../crds/index.ts'
import { postgresPort } from '../../postgres/configuration.ts'
import { childMetadata, type Owner } from '../ownership.ts'
import { podSelector } from './addresses.ts'

export function serviceDraft(owner: Owner, incarnation: number): Draft<'Service'> {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: childMetadata(owner, childNames.service(owner.id), 'postgres'),
    spec: {
      type: 'ClusterIP',
      selector: podSelector(owner, incarnation),
      ports: [{ name: 'postgres', port: postgresPort, protocol: 'TCP', targetPort: postgresPort }],
    },
  }
}
