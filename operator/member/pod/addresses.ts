/** The address of a database's Postgres inside the cluster: pod labels, host name. */
import { childNames, firstMember, labels } from '../../../crds/index.ts'
import type { Component, Owner } from '../../objects/ownership.ts'
import { type Member, memberLabels } from '../member.ts'

/** The labels by which a StatefulSet selects its pod. */
export function podSelector({ owner, incarnation, number }: Member): Record<string, string> {
  return {
    [labels.database]: owner.id,
    [labels.component]: 'postgres' satisfies Component,
    ...memberLabels({ incarnation, number }),
  }
}

/** The role of a member within its incarnation. */
export type Role = 'primary' | 'replica'

/**
 * Which pods serve. `byRole`: those with the role label of the primary; else the first member's, which may be from
 * before there were roles.
 */
export type Serving = { incarnation: number; byRole: boolean }

/** The labels by which Service and disruption budget select the member that serves. */
export const servingSelector = (owner: Owner, { incarnation, byRole }: Serving): Record<string, string> => ({
  ...podSelector({ owner, incarnation, number: firstMember }),
  ...(byRole ? { [labels.role]: 'primary' satisfies Role } : {}),
})

/** The name in the server's certificate, to which the operator connects. */
export const serviceHost = (owner: Owner): string => `${childNames.service(owner.id)}.${owner.namespace}.svc`
