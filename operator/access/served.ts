/**
 * The namespaces in which the operator has its rights, and the Secrets there. If it has them cluster-wide, as in the
 * embedded default, every namespace is served.
 */
import type { Informer, NamespacedInformer } from '../../cluster/informer/index.ts'
import { bindingNames, isOperatorBinding } from './bindings.ts'

type Secrets = {
  get: Informer<'Secret'>['get']
  within(namespace: string): Pick<Informer<'Secret'>, 'byIndex'>
  onChange: Informer<'Secret'>['onChange']
}

/** Where the operator may act. */
export type Served = {
  secrets: Secrets
  /** Whether the operator has rights in the namespace and its Secrets are cached. Nothing is decided before. */
  isServed(namespace: string): boolean
  /** Resolves once all namespaces that are bound now are served, or after this time. */
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
 * For an operator that may list and watch the Secrets of all namespaces, but do everything else only where it is bound.
 */
export const servedWhereBound = (bindings: Bindings, secrets: Informer<'Secret'>): Served => ({
  ...servedEverywhere(secrets),
  isServed: namespace => secrets.synced && bindings.get({ namespace, name: bindingNames.operator }) !== undefined,
})

const pollMs = 20

/** A namespace is served once its RoleBinding is observed and its Secrets are listed. */
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
