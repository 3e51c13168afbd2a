/** How to address a database's Postgres inside the cluster: the pod's labels and the host name. */
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
 * Selects the pods that serve. `byRole`: selects by the primary's role label. Otherwise selects by the first member's
 * labels, because older pods have no role label.
 */
export type Serving = { incarnation: number; byRole: boolean }

/** The labels by which Service and disruption budget select the serving member's pod. */
export const servingSelector = (owner: Owner, { incarnation, byRole }: Serving): Record<string, string> => ({
  ...podSelector({ owner, incarnation, number: firstMember }),
  ...(byRole ? { [labels.role]: 'primary' satisfies Role } : {}),
})

/** The host name in the server's certificate. The operator verifies this name when it connects. */
export const serviceHost = (owner: Owner): string => `${childNames.service(owner.id)}.${owner.namespace}.svc`
