/**
 * Has one authority take the place of another, where that is asked for: by the annotation `espalier.dev/rotate` on the
 * Secret `espalier-ca` (a new one is made), by a Secret `espalier-ca-next` that holds the new one, by another one put
 * into `espalier-ca` itself, or because the one in force ends within a year. Every step is a single guarded write of the
 * Secret `espalier-ca-state`, and each is decided from what stands there.
 */
import { X509Certificate } from 'node:crypto'
import type { Draft, Secret } from '../../cluster/index.ts'
import { startController } from '../../controller/index.ts'
import { labels, managedByEspalier, systemNamespace } from '../../crds/index.ts'
import {
  authorityConfigMap,
  authoritySecret,
  authorityStateSecret,
  nextAuthoritySecret,
  rotateAnnotation,
  type SystemCertificate,
} from '../../sealing/credentials.ts'
import type { ControllerOptions } from '../controller-options.ts'
import { authorityOf, isInstallationKey } from '../keys.ts'
import { createIfAbsent } from '../objects/create.ts'
import { type Authority, createAuthority, isAuthority } from '../pki/index.ts'
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
  /** Of Espalier's own servers and clients those whose certificates the operator issues. */
  certificates: readonly SystemCertificate[]
  waits: Waits & { /** How often it is looked whether servers have come on. */ lookMs: number }
}

const yearMs = 365 * 86_400_000
const hourMs = 3600_000
const namedServers = 5
const theAuthority = 'authority'

/** A Secret with an authority, as the bootstrap makes it. */
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
  const { caches, certificates, waits, logger, metrics, now, signal } = options
  const cluster = caches.writeThrough(options.cluster)
  const get = (name: string) => caches.systemSecrets.get({ namespace: systemNamespace, name })
  const again = (ms: number) => ({ requeueAfterMs: Math.max(0, ms) })

  const reconcile = async () => {
    const [givenSecret, nextSecret, stateSecret] = [authoritySecret, nextAuthoritySecret, authorityStateSecret].map(get)
    const [given, next] = [authorityOf(givenSecret), authorityOf(nextSecret)]
    const state = readState(stateSecret)
    if (given === undefined) return state && next ? putInPlace(state, next) : undefined
    if (state === undefined) return begin(given, next, stateSecret)
    if (next === undefined && isAsked(givenSecret, given, now())) return makeNext()
    const desired = next ?? given
    const fault = signingOf(state).cert === desired.cert ? undefined : faultOf(desired, now())
    if (fault !== undefined) {
      logger.error({ secret: next ? nextAuthoritySecret : authoritySecret }, `${fault}: it is left aside`)
      return again(hourMs)
    }
    return advance(state, desired, stateSecret, next && nextSecret)
  }

  /**
   * The first state of all, or of one that somebody deleted or spoilt. Then what has been published says how far it had
   * come: that begins with the one that signs. Whom clients do not trust must not sign for them.
   */
  const begin = async (given: Authority, next: Authority | undefined, before: Secret | undefined) => {
    const found = await cluster.get('ConfigMap', { namespace: systemNamespace, name: authorityConfigMap })
    const published = found?.data?.['ca.crt'] ?? ''
    const others = next === undefined || faultOf(next, now()) !== undefined ? [] : [next]
    const signing = others.find(({ cert }) => published.startsWith(cert)) ?? given
    if (!isAuthority(signing)) {
      logger.error({ secret: authoritySecret }, notOurs)
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
    await write(state, atRest, before)
    return again(0)
  }

  const advance = async (
    state: AuthorityState,
    desired: Authority,
    stateSecret: Secret | undefined,
    nextSecret: Secret | undefined,
  ) => {
    const { mark } = trustOf(state, [])
    let behind: string[] = []
    const isLoaded = () => {
      behind = serversBehind(caches, certificates, { mark, mountedBefore: now() - waits.settleMs })
      return behind.length === 0
    }
    const decision = nextStep(state, desired, { isLoaded, now: now() }, waits)
    switch (decision.do) {
      case 'change':
        await write(decision.to, decision.step, stateSecret)
        logger.info({ step: decision.step }, 'the certificate authority is being replaced')
        return again(0)
      case 'wait':
        await tell(state, `${decision.step}; until ${new Date(decision.until).toISOString()} at least`, stateSecret)
        return again(Math.min(decision.until - now(), hourMs))
      case 'await-servers':
        await tell(state, `${decision.step}; waits for ${named(behind)}`, stateSecret)
        return again(waits.lookMs)
      case 'rest':
        await tell(state, atRest, stateSecret)
        return nextSecret === undefined ? again(hourMs) : finish(desired, nextSecret)
    }
  }

  /** The new authority is in force: its Secret takes the name of the old one's. */
  const finish = async (desired: Authority, nextSecret: Secret) => {
    const givenSecret = get(authoritySecret)
    const { name, uid } =
      authorityOf(givenSecret)?.cert === desired.cert ? nextSecret.metadata : (givenSecret?.metadata ?? {})
    if (name !== undefined) await cluster.delete('Secret', { namespace: systemNamespace, name }, { uid })
    return undefined
  }

  /** Between the old one's deletion and this the new one stands in two Secrets still. */
  const putInPlace = async (state: AuthorityState, next: Authority) => {
    if (signingOf(state).cert !== next.cert) return undefined
    await create(authorityDraft(authoritySecret, next))
    logger.info('the certificate authority has been replaced: back up its Secret')
    return undefined
  }

  const makeNext = async () => {
    await create(authorityDraft(nextAuthoritySecret, createAuthority(now)))
    logger.info({ secret: nextAuthoritySecret }, 'a new certificate authority was made')
    return undefined
  }

  /** Whoever was faster made one as good. */
  const create = (draft: Draft<'Secret'>) => createIfAbsent(cluster, 'Secret', draft)

  const write = async (state: AuthorityState, progress: string, before: Secret | undefined) => {
    const draft = stateDraft(state, progress)
    if (before === undefined) await cluster.create('Secret', draft)
    else await cluster.replace('Secret', { ...before, ...draft, metadata: { ...before.metadata, ...draft.metadata } })
  }

  const tell = async (state: AuthorityState, progress: string, before: Secret | undefined) => {
    if (before?.metadata.annotations?.[progressAnnotation] !== progress) await write(state, progress, before)
  }

  const controller = startController({
    name: 'authority',
    workers: 1,
    reconcile,
    signal,
    logger,
    metrics,
  })
  const unfollow = caches.systemSecrets.onChange(({ object }) => {
    if (isInstallationKey(object.metadata.name)) controller.enqueue(theAuthority)
  })
  controller.enqueue(theAuthority)
  return {
    stop: async () => {
      unfollow()
      await controller.stop()
    },
  }
}

const notOurs = 'what stands in this Secret is no certificate authority of ours'

/** Why an authority cannot be put into force; undefined where it can. */
function faultOf(authority: Authority, now: number): string | undefined {
  if (!isAuthority(authority)) return notOurs
  const { validFromDate, validToDate } = new X509Certificate(authority.cert)
  if (now >= validFromDate.getTime() && now < validToDate.getTime()) return undefined
  return `the authority in this Secret is valid from ${validFromDate.toISOString()} to ${validToDate.toISOString()} only`
}

/** By the annotation, or by time: all that it has signed ends with it. */
function isAsked(secret: Secret | undefined, { cert }: Authority, now: number): boolean {
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
