/**
 * The installation's sealing key and certificate authority, as the cluster has them now. They are created with the
 * installation and never again. If one is missing, the operator reports that, removes owner references, and writes
 * nothing else.
 */
import type { Secret } from '../cluster/index.ts'
import { canonicalJson, labels, systemNamespace } from '../crds/index.ts'
import {
  authoritySecret,
  authorityStateSecret,
  gatewayHttpsSecret,
  nextAuthoritySecret,
  sealingKeySecret,
  systemCertificates,
} from '../sealing/credentials.ts'
import { readState, signingOf, trustIn, trustOf } from './authority/state.ts'
import type { Authority } from './pki/index.ts'
import type { Trust } from './pki/trust.ts'

export type InstallationKeys = { sealingKey: Uint8Array | undefined; authority: Trust | undefined }

/** Component label of a Secret in the system namespace that a region may name as the source of its certificate. */
export const regionCertificateComponent = 'gateway-certificate'

type Cache = { get(key: { namespace: string; name: string }): Secret | undefined }

const bytesOf = (secret: Secret | undefined, key: string): Buffer => Buffer.from(secret?.data?.[key] ?? '', 'base64')

const keyBytes = 32

const installationKeys = [sealingKeySecret, authoritySecret, nextAuthoritySecret, authorityStateSecret]

/** Whether a Secret with this name has one of the keys. */
export const isInstallationKey = (name: string): boolean => installationKeys.includes(name)

const certificates: ReadonlySet<string> = new Set(Object.values(systemCertificates))

/**
 * The cached part of the system namespace's Secrets. It has the values of the operator's keys and certificates, of the
 * named Secrets, and of Secrets that regions may name. Of others it has only the name.
 */
export function withoutForeignData(secret: Secret, named: ReadonlySet<string> = new Set()): Secret {
  const { managedFields: _, ...metadata } = secret.metadata
  const { name } = metadata
  const isForRegion = name === gatewayHttpsSecret || metadata.labels?.[labels.component] === regionCertificateComponent
  if (isForRegion || isInstallationKey(name) || certificates.has(name) || named.has(name))
    return { ...secret, metadata }
  return { apiVersion: secret.apiVersion, kind: secret.kind, metadata }
}

/**
 * Reads the keys from a cache of the system namespace's Secrets. Returns the same object as long as they are unchanged.
 */
export function createKeyReader(secrets: Cache): () => InstallationKeys {
  let read: { of: (Secret | undefined)[]; keys: InstallationKeys } | undefined
  return () => {
    const of = installationKeys.map(name => secrets.get({ namespace: systemNamespace, name }))
    if (read === undefined || of.some((secret, index) => secret !== read?.of[index])) {
      const keys = keysOf(secrets)
      read = { of, keys: read !== undefined && isSame(read.keys, keys) ? read.keys : keys }
    }
    return read.keys
  }
}

const isSame = (left: InstallationKeys, right: InstallationKeys): boolean =>
  canonicalJson(left.authority ?? {}) === canonicalJson(right.authority ?? {}) &&
  Buffer.from(left.sealingKey ?? []).equals(Buffer.from(right.sealingKey ?? []))

function keysOf(secrets: Cache): InstallationKeys {
  const sealingKey = bytesOf(secrets.get({ namespace: systemNamespace, name: sealingKeySecret }), 'key')
  return {
    sealingKey: sealingKey.length === keyBytes ? sealingKey : undefined,
    authority: readTrust(secrets),
  }
}

/** The authority in a Secret. */
export function authorityOf(secret: Secret | undefined): Authority | undefined {
  const [cert, key] = ['tls.crt', 'tls.key'].map(name => bytesOf(secret, name).toString('utf8').trim())
  // Certificates are concatenated to bundles, so each must end with a newline.
  return cert && key ? { cert: `${cert}\n`, key: `${key}\n` } : undefined
}

/**
 * The current trusted authorities. Undefined if the authority's Secret does not exist, except while the operator
 * replaces it by the new one.
 */
export function readTrust(secrets: Cache): Trust | undefined {
  const get = (name: string) => secrets.get({ namespace: systemNamespace, name })
  const given = authorityOf(get(authoritySecret))
  const next = authorityOf(get(nextAuthoritySecret))
  const state = readState(get(authorityStateSecret))
  const isBeingPut = next !== undefined && state !== undefined && signingOf(state).cert === next.cert
  if (given === undefined && !isBeingPut) return undefined
  const atHand = [given, next].filter(authority => authority !== undefined)
  if (state !== undefined) return trustOf(state, atHand)
  // If there are two authorities, the state defines which one signs. It is written again before any certificate is
  // issued.
  return given && next === undefined ? trustIn(given) : undefined
}
