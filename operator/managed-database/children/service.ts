/**
 * The Service of a database: one stable name in the cluster, whose selector says which incarnation serves. It publishes
 * a pod that is not ready as well: there is one pod to choose from, and a client is better told by Postgres that it
 * starts up than by the network that nobody is there.
 */
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
      publishNotReadyAddresses: true,
      ports: [{ name: 'postgres', port: postgresPort, protocol: 'TCP', targetPort: postgresPort }],
    },
  }
}
