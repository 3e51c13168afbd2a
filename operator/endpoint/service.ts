/**
 * The Service of a database: one stable name in the cluster. Its selector contains the serving incarnation and member.
 * It also routes to a pod that is not ready: if the disk hangs or is full, the pod is not ready, but Postgres still
 * answers.
 */
import type { Draft } from '../../cluster/index.ts'
import { childNames } from '../../crds/index.ts'
import { agentPort } from '../../instance/agent/contract.ts'
import { type Serving, servingSelector } from '../member/pod/addresses.ts'
import { childMetadata, type Owner } from '../objects/ownership.ts'
import { postgresPort } from '../postgres/configuration.ts'

export function serviceDraft(owner: Owner, serving: Serving): Draft<'Service'> {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: childMetadata(owner, childNames.service(owner.id), 'postgres'),
    spec: {
      type: 'ClusterIP',
      publishNotReadyAddresses: true,
      selector: servingSelector(owner, serving),
      ports: [
        { name: 'postgres', port: postgresPort, protocol: 'TCP', targetPort: postgresPort },
        { name: 'agent', port: agentPort, protocol: 'TCP', targetPort: agentPort },
      ],
    },
  }
}
