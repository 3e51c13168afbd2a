/**
 * The controller of the certificate authority. It replaces one authority by another. Four causes start a replacement:
 *
 * - the annotation `espalier.dev/rotate` on the Secret `espalier-ca` (the operator creates the new authority);
 * - a Secret `espalier-ca-next` with the new authority;
 * - another authority in `espalier-ca` itself;
 * - an authority that expires within a year.
 *
 * Each step is one write of the Secret `espalier-ca-state` with a precondition. Each decision depends only on that
 * Secret's content.
 */
import { X509Certificate } from 'node:crypto'
import type { Cluster, Draft, Secret } from '../../cluster/index.ts'
import { type Controller, startController } from '../../controller/index.ts'
import { labels, managedByEspalier, systemNamespace } from '../../crds/index.ts'
import {
  authorityConfigMap,
  authoritySecret,
  authorityStateSecret,
  gatewayHttpsSecret,
  nextAuthoritySecret,
  rotateAnnotation,
  type SystemCertificate,
} from '../../sealing/credentials.ts'
import type { ControllerOptions } from '../controller-options.ts'
import { authorityOf, isInstallationKey } from '../keys.ts'
import { createIfAbsent } from '../objects/create.ts'
import { type Authority, createAuthority, isAuthority } from '../pki/index.ts'
import { httpsBehind } from './https.ts'
import { atRest, nextStep, type Waits } from './rotation.ts'
import { serversBehind } from './servers.ts'
import {
  type AuthorityState,
  type Member,
  progressAnnotation,
  readState,
  signingOf,
  stateDraft,
  trustOf,
} from './state.ts'

type AuthorityControllerOptions = ControllerOptions & {
  /** The certificates of Espalier's own servers and clients, which the operator issues. */
  certificates: readonly SystemCertificate[]
  waits: Waits & { /** The interval of the checks whether all servers have loaded the last step. */ lookMs: number }
}

const yearMs = 365 * 86_400_000
const hourMs = 3600_000
const namedServers = 5
const theAuthority = 'authority'

/** A Secret with an authority, as the bootstrap creates it. */
const authorityDraft = (name: string, { cert, key }: Authority): Draft<'Secret'> => ({
  apiVersion: 'v1',
  kind: 'Secret',
  type: 'Opaque',
  immutable: true,
  metadata: { name, namespace: systemNamespace, labels: { [labels.managedBy]: managedByEspalier } },
  data: {
    'tls.crt': Buffer.from(cert).toString('base64'),
    'tls.key': Buffer.from(key).toString('base64'),
  },
})

export function startAuthorityController(options: AuthorityControllerOptions): { stop(): Promise<void> } {
  const authority = new AuthorityController(options)
  const unsubscribe = options.caches.systemSecrets.onChange(({ object }) => {
    if (isInstallationKey(object.metadata.name)) authority.enqueue()
  })
  authority.enqueue()
  return {
    stop: async () => {
      unsubscribe()
      await authority.stop()
    },
  }
}

class AuthorityController {
  readonly #options: AuthorityControllerOptions
  readonly #cluster: Cluster
  readonly #controller: Controller

  constructor(options: AuthorityControllerOptions) {
    const { caches, logger, metrics, signal } = options
    this.#options = options
    this.#cluster = caches.writeThrough(options.cluster)
    this.#controller = startController({
      name: 'authority',
      workers: 1,
      reconcile: () => this.#reconcile(),
      signal,
      logger,
      metrics,
    })
  }

  enqueue(): void {
    this.#controller.enqueue(theAuthority)
  }

  stop(): Promise<void> {
    return this.#controller.stop()
  }

  #secret(name: string): Secret | undefined {
    return this.#options.caches.systemSecrets.get({ namespace: systemNamespace, name })
  }

  async #reconcile() {
    const [givenSecret, nextSecret, stateSecret] = [authoritySecret, nextAuthoritySecret, authorityStateSecret].map(
      name => this.#secret(name),
    )
    const [given, next] = [authorityOf(givenSecret), authorityOf(nextSecret)]
    const state = readState(stateSecret)
    const { logger, now } = this.#options
    if (given === undefined) return state && next ? this.#promote(state, next) : undefined
    if (state === undefined) return this.#begin(given, next, stateSecret)
    if (next === undefined && isRenewalDue(givenSecret, given, now())) return this.#createNext()
    const desired = next ?? given
    const fault = signingOf(state).cert === desired.cert ? undefined : faultOf(desired, now())
    if (fault !== undefined) {
      logger.error({ secret: next ? nextAuthoritySecret : authoritySecret }, `${fault}: the operator does not use it`)
      return again(hourMs)
    }
    return this.#advance(state, desired, stateSecret, next && nextSecret)
  }

  /**
   * Writes the first state, or a new state if a user deleted or damaged it. In the second case the published bundle
   * shows the progress of the rotation: its first authority is the one that signs. An authority that clients do not
   * trust must not sign.
   */
  async #begin(given: Authority, next: Authority | undefined, before: Secret | undefined) {
    const { logger, now } = this.#options
    const found = await this.#cluster.get('ConfigMap', { namespace: systemNamespace, name: authorityConfigMap })
    const published = found?.data?.['ca.crt'] ?? ''
    const others = next === undefined || faultOf(next, now()) !== undefined ? [] : [next]
    const signing = others.find(({ cert }) => published.startsWith(cert)) ?? given
    if (!isAuthority(signing)) {
      logger.error({ secret: authoritySecret }, notCreatedByEspalier)
      return again(hourMs)
    }
    const uses = [given, ...others].flatMap((authority): Member[] => {
      if (authority.cert === signing.cert) return []
      if (published.includes(authority.cert)) return [{ ...authority, use: 'trusted' }]
      return authority === given ? [{ ...authority, use: 'retired' }] : []
    })
    const state: AuthorityState = {
      authorities: [{ ...signing, use: 'signs' }, ...uses],
      changedAt: new Date(now()).toISOString(),
    }
    await this.#write(state, atRest, before)
    return again(0)
  }

  async #advance(
    state: AuthorityState,
    desired: Authority,
    stateSecret: Secret | undefined,
    nextSecret: Secret | undefined,
  ) {
    const { caches, certificates, waits, logger, now } = this.#options
    const { digest } = trustOf(state, [])
    let behind: string[] = []
    const isLoaded = () => {
      behind = [
        ...serversBehind(caches, certificates, { trustDigest: digest, mountedBefore: now() - waits.settleMs }),
        ...httpsBehind(this.#httpsFacts(), signingOf(state), now()),
      ]
      return behind.length === 0
    }
    const decision = nextStep(state, desired, { isLoaded, now: now() }, waits)
    switch (decision.do) {
      case 'change':
        await this.#write(decision.to, decision.step, stateSecret)
        logger.info({ step: decision.step }, 'the certificate authority is being replaced')
        return again(0)
      case 'wait': {
        const until = new Date(decision.until).toISOString()
        await this.#reportProgress(state, `${decision.step}; until ${until} at least`, stateSecret)
        return again(Math.min(decision.until - now(), hourMs))
      }
      case 'await-servers':
        await this.#reportProgress(state, `${decision.step}; waiting for ${named(behind)}`, stateSecret)
        return again(waits.lookMs)
      case 'rest':
        await this.#reportProgress(state, atRest, stateSecret)
        return nextSecret === undefined ? again(hourMs) : this.#finish(desired, nextSecret)
    }
  }

  #httpsFacts() {
    const { caches } = this.#options
    return {
      regions: caches.regions.list(),
      secret: this.#secret(gatewayHttpsSecret),
      gateways: caches.gateways.list(),
    }
  }

  /**
   * Deletes the old authority's Secret after the new authority is the only one, so that the new authority's Secret can
   * get that name.
   */
  async #finish(desired: Authority, nextSecret: Secret) {
    const givenSecret = this.#secret(authoritySecret)
    const { name, uid } =
      authorityOf(givenSecret)?.cert === desired.cert ? nextSecret.metadata : (givenSecret?.metadata ?? {})
    if (name !== undefined) await this.#cluster.delete('Secret', { namespace: systemNamespace, name }, { uid })
    return undefined
  }

  /** Between the deletion of the old Secret and this step, two other Secrets have the new authority. */
  async #promote(state: AuthorityState, next: Authority) {
    if (signingOf(state).cert !== next.cert) return undefined
    await createIfAbsent(this.#cluster, 'Secret', authorityDraft(authoritySecret, next))
    this.#options.logger.info('the certificate authority has been replaced: back up its Secret')
    return undefined
  }

  async #createNext() {
    const { logger, now } = this.#options
    await createIfAbsent(this.#cluster, 'Secret', authorityDraft(nextAuthoritySecret, createAuthority(now)))
    logger.info({ secret: nextAuthoritySecret }, 'created a new certificate authority')
    return undefined
  }

  async #write(state: AuthorityState, progress: string, before: Secret | undefined) {
    const draft = stateDraft(state, progress)
    if (before === undefined) await this.#cluster.create('Secret', draft)
    else
      await this.#cluster.replace('Secret', {
        ...before,
        ...draft,
        metadata: { ...before.metadata, ...draft.metadata },
      })
  }

  async #reportProgress(state: AuthorityState, progress: string, before: Secret | undefined) {
    if (before?.metadata.annotations?.[progressAnnotation] !== progress) await this.#write(state, progress, before)
  }
}

const again = (ms: number) => ({ requeueAfterMs: Math.max(0, ms) })

const notCreatedByEspalier = 'this Secret contains no certificate authority created by Espalier'

/** Why an authority cannot be used. Undefined if it can. */
function faultOf(authority: Authority, now: number): string | undefined {
  if (!isAuthority(authority)) return notCreatedByEspalier
  const { validFromDate, validToDate } = new X509Certificate(authority.cert)
  if (now >= validFromDate.getTime() && now < validToDate.getTime()) return undefined
  return `the authority in this Secret is only valid from ${validFromDate.toISOString()} to ${validToDate.toISOString()}`
}

/**
 * Requested by the annotation, or because the authority expires soon: its certificates are not valid longer than
 * itself.
 */
function isRenewalDue(secret: Secret | undefined, { cert }: Authority, now: number): boolean {
  if (secret?.metadata.annotations?.[rotateAnnotation] === 'true') return true
  try {
    return now > new X509Certificate(cert).validToDate.getTime() - yearMs
  } catch {
    return false
  }
}

const named = (servers: readonly string[]): string =>
  servers.length > namedServers
    ? `${servers.slice(0, namedServers).join(', ')} and ${servers.length - namedServers} more`
    : servers.join(', ')
