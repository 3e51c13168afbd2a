/**
 * The outer protection of a database's Postgres; the gateway's allowlists and pg_hba are the inner protection. The policy
 * works only if the cluster's network enforces it.
 *
 * - Only the gateway, the operator and pods of the same database can connect to Postgres. The API can connect, too, if
 *   it runs SQL for users.
 * - Only the API and the collector of `metricsFrom` can connect to the agent. The operator can, too, if the database
 *   archives.
 * - Postgres's pod can connect to nothing. If it archives, or is being recovered from the archive, it can connect to
 *   the archive and to name servers.
 */
import type { Draft } from '../../cluster/index.ts'
import { childNames, labels, systemNamespace } from '../../crds/index.ts'
import { agentPort } from '../../instance/agent/contract.ts'
import { type Component, childMetadata, type Owner } from '../objects/ownership.ts'
import type { PodSettings } from '../pod-settings.ts'
import { postgresPort } from '../postgres/configuration.ts'

/** Labels of Espalier's own pods in the system namespace. The chart sets them. */
export const systemPods = (component: 'gateway' | 'operator' | 'api' | 'archive') => ({
  namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': systemNamespace } },
  podSelector: {
    matchLabels: { 'app.kubernetes.io/name': 'espalier', 'app.kubernetes.io/component': component },
  },
})

/** The port of the archive's pods. */
const archivePort = 8443

export const toArchive = [
  { to: [systemPods('archive')], ports: [{ protocol: 'TCP', port: archivePort }] },
  { ports: ['UDP', 'TCP'].map(protocol => ({ protocol, port: 53 })) },
]

/**
 * `metricsFrom`: the collector of the databases' metrics, if any. `apiConnects`: the API runs SQL. `archives`: the
 * agent archives. `recovers`: the volume is being recovered from the archive.
 */
export function networkPolicyDraft(
  owner: Owner,
  { metricsFrom, apiConnects = false }: Pick<PodSettings, 'metricsFrom'> & Partial<Pick<PodSettings, 'apiConnects'>>,
  { archives = false, recovers = false }: { archives?: boolean; recovers?: boolean } = {},
): Draft<'NetworkPolicy'> {
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: childMetadata(owner, childNames.service(owner.id), 'postgres'),
    spec: {
      podSelector: {
        matchLabels: { [labels.database]: owner.id, [labels.component]: 'postgres' satisfies Component },
      },
      // The policy type Egress without rules permits no new connections. Replies on accepted connections need no rule.
      policyTypes: ['Ingress', 'Egress'],
      ingress: [
        {
          from: [
            systemPods('gateway'),
            systemPods('operator'),
            ...(apiConnects ? [systemPods('api')] : []),
            { podSelector: { matchLabels: { [labels.database]: owner.id } } },
          ],
          ports: [{ protocol: 'TCP', port: postgresPort }],
        },
        {
          from: [systemPods('api'), ...(archives ? [systemPods('operator')] : []), ...metricsFrom],
          ports: [{ protocol: 'TCP', port: agentPort }],
        },
      ],
      ...(archives || recovers ? { egress: toArchive } : {}),
    },
  }
}
