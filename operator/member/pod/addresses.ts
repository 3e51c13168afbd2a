/** Where a database's Postgres is found inside the cluster: pod labels, host name. */
import { childNames, firstMember, labels } from '../../../crds/index.ts'
import type { Component, Owner } from '../../objects/ownership.ts'
import { type Member, memberLabels } from '../member.ts'

/** The labels by which a StatefulSet finds its pod. */
export function podSelector({ owner, incarnation, number }: Member): Record<string, string> {
  return {
    [labels.database]: owner.id,
    [labels.component]: 'postgres' satisfies Component,
    ...memberLabels({ incarnation, number }),
  }
}

/** What a member is among those of its incarnation. */
export type Role = 'primary' | 'replica'

/** Which pods serve. `byRole`: those that say that they are the primary; else the first member's, which are from before there were roles. */
export type Serving = { incarnation: number; byRole: boolean }

/** The labels by which Service and disruption budget find the member that serves. */
export const servingSelector = (owner: Owner, { incarnation, byRole }: Serving): Record<string, string> => ({
  ...podSelector({ owner, incarnation, number: firstMember }),
  ...(byRole ? { [labels.role]: 'primary' satisfies Role } : {}),
})

/** The name that the server's certificate carries and that the operator connects to. */
export const serviceHost = (owner: Owner): string => `${childNames.service(owner.id)}.${owner.namespace}.svc`
