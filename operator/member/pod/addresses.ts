/** Where a database's Postgres is found inside the cluster: pod labels, host name. */
import { childNames, labels } from '../../../crds/index.ts'
import type { Component, Owner } from '../../objects/ownership.ts'
import { type Member, memberLabels } from '../member.ts'

/** The labels by which a StatefulSet finds its pod. */
export function podSelector({ owner, incarnation, number }: Member): Record<string, string> {
  return { ...servingSelector(owner, incarnation), ...memberLabels({ incarnation, number }) }
}

/** The labels by which a Service finds the member that serves. */
export const servingSelector = (owner: Owner, incarnation: number): Record<string, string> => ({
  [labels.database]: owner.id,
  [labels.component]: 'postgres' satisfies Component,
  [labels.incarnation]: String(incarnation),
})

/** The name that the server's certificate carries and that the operator connects to. */
export const serviceHost = (owner: Owner): string => `${childNames.service(owner.id)}.${owner.namespace}.svc`
