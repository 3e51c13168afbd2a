/** Where a database's Postgres is found inside the cluster: pod labels, host name. */
import { childNames, labels } from '../../../crds/index.ts'
import type { Component, Owner } from '../../objects/ownership.ts'

/** The labels by which Service and StatefulSet find the pod of one incarnation. */
export function podSelector(owner: Owner, incarnation: number): Record<string, string> {
  return {
    [labels.database]: owner.id,
    [labels.component]: 'postgres' satisfies Component,
    [labels.incarnation]: String(incarnation),
  }
}

/** The name that the server's certificate carries and that the operator connects to. */
export const serviceHost = (owner: Owner): string => `${childNames.service(owner.id)}.${owner.namespace}.svc`
