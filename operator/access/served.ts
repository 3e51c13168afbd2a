/**
 * The namespaces in which the operator has its rights, and the Secrets there. If it has cluster-wide rights, as in the
 * embedded cluster, every namespace is served.
 */
import type { Informer, NamespacedInformer } from '../../cluster/informer/index.ts'
import { bindingNames, isOperatorBinding } from './bindings.ts'

type Secrets = {
  get: Informer<'Secret'>['get']
  within(namespace: string): Pick<Informer<'Secret'>, 'byIndex'>
  onChange: Informer<'Secret'>['onChange']
}

/** The namespaces in which the operator may act. */
export type Served = {
  secrets: Secrets
  /** Whether the operator has rights in the namespace, and has cached its Secrets. Before that it decides nothing. */
  isServed(namespace: string): boolean
  /** Resolves when all namespaces that currently have a binding are served, or after this time. */
  untilServed(withinMs: number): Promise<void>
  stop(): Promise<void>
}

export const servedEverywhere = (secrets: Informer<'Secret'>): Served => ({
  secrets: { get: secrets.get, within: () => secrets, onChange: secrets.onChange },
  isServed: () => true,
  untilServed: async () => {},
  stop: async () => {},
})

type Bindings = Pick<Informer<'RoleBinding'>, 'get' | 'list' | 'onChange'>

/**
 * For an operator that may list and watch the Secrets of all namespaces, but has other rights only where it has a
 * binding.
 */
export const servedWhereBound = (bindings: Bindings, secrets: Informer<'Secret'>): Served => ({
  ...servedEverywhere(secrets),
  isServed: namespace => secrets.synced && bindings.get({ namespace, name: bindingNames.operator }) !== undefined,
})

const pollMs = 20

/** A namespace is served after its RoleBinding is observed and its Secrets are listed. */
export function servedByBindings(bindings: Bindings, secrets: NamespacedInformer<'Secret'>): Served {
  bindings.onChange(({ type, object }) => {
    const { namespace = '' } = object.metadata
    if (!isOperatorBinding(object)) return
    if (type === 'deleted') secrets.unsubscribe(namespace)
    else secrets.subscribe(namespace)
  })
  const isServed = (namespace: string) => secrets.isSynced(namespace)
  return {
    secrets,
    isServed,
    async untilServed(withinMs) {
      const until = Date.now() + withinMs
      const bound = () => bindings.list().filter(isOperatorBinding)
      while (Date.now() < until && !bound().every(({ metadata }) => isServed(metadata.namespace ?? '')))
        await new Promise(resolve => setTimeout(resolve, pollMs))
    },
    stop: secrets.stop,
  }
}
