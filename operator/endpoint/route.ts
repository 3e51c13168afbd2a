/** The route of a database: a ConfigMap that reserves the port, and has the allowlist for the gateway. */
import type { Draft } from '../../cluster/index.ts'
import { childNames, labels, managedByEspalier, systemNamespace } from '../../crds/index.ts'
import { type Route, routeComponent, routeKey, routeName } from '../../routes/route.ts'
import { maskCidr } from '../../values/cidr.ts'
import type { InstanceSpec } from '../objects/instance.ts'
import { type Owner, ownerAnnotations } from '../objects/ownership.ts'
import { postgresPort } from '../postgres/configuration.ts'

/** The rules of a spec in the gateway's format: masked, without duplicates, in order. */
export function maskedRules(spec: Pick<InstanceSpec, 'ipAllowlist'>): string[] {
  const masked = spec.ipAllowlist.rules.map(rule => maskCidr(rule.cidr)).filter(cidr => cidr !== undefined)
  return [...new Set(masked)]
}

function routeOf(owner: Owner, port: number, rules: string[]): Route {
  return {
    databaseId: owner.id,
    label: owner.hostLabel,
    port,
    target: { namespace: owner.namespace, service: childNames.service(owner.id), port: postgresPort },
    rules,
  }
}

/** The labels by which the operator and the gateways select a route. */
export const routeLabels = ({ id }: Pick<Owner, 'id'>): Record<string, string> => ({
  [labels.managedBy]: managedByEspalier,
  [labels.database]: id,
  [labels.component]: routeComponent,
})

export function routeDraft(owner: Owner, port: number, rules: string[]): Draft<'ConfigMap'> {
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      name: routeName(port),
      namespace: systemNamespace,
      labels: routeLabels(owner),
      annotations: ownerAnnotations(owner),
    },
    data: { [routeKey]: JSON.stringify(routeOf(owner, port, rules)) },
  }
}
