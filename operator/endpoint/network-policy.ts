/**
 * The outer fence around a database's Postgres (the gateway's allowlists and pg_hba are the inner ones): only the
 * gateway, the operator and what belongs to the same database reach it, the API and whoever gathers metrics its agent alone,
 * and it reaches nobody. It works where the cluster's network enforces policies.
 */
import type { Draft } from '../../cluster/index.ts'
import { childNames, labels, systemNamespace } from '../../crds/index.ts'
import { agentPort } from '../../instance/agent/contract.ts'
import { type Component, childMetadata, type Owner } from '../objects/ownership.ts'
import type { PodSettings } from '../pod-settings.ts'
import { postgresPort } from '../postgres/configuration.ts'

/** Labels of Espalier's own pods in the system namespace, as its chart writes them. */
export const systemPods = (component: 'gateway' | 'operator' | 'api') => ({
  namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': systemNamespace } },
  podSelector: {
    matchLabels: { 'app.kubernetes.io/name': 'espalier', 'app.kubernetes.io/component': component },
  },
})

/** `metricsFrom`: who gathers the metrics of databases, if anybody does. */
export function networkPolicyDraft(
  owner: Owner,
  { metricsFrom }: Pick<PodSettings, 'metricsFrom'>,
): Draft<'NetworkPolicy'> {
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: childMetadata(owner, childNames.service(owner.id), 'postgres'),
    spec: {
      podSelector: {
        matchLabels: { [labels.database]: owner.id, [labels.component]: 'postgres' satisfies Component },
      },
      // Egress is named and allowed to nowhere: answers to those who came in need no rule.
      policyTypes: ['Ingress', 'Egress'],
      ingress: [
        {
          from: [
            systemPods('gateway'),
            systemPods('operator'),
            { podSelector: { matchLabels: { [labels.database]: owner.id } } },
          ],
          ports: [{ protocol: 'TCP', port: postgresPort }],
        },
        {
          from: [systemPods('api'), ...metricsFrom],
          ports: [{ protocol: 'TCP', port: agentPort }],
        },
      ],
    },
  }
}
