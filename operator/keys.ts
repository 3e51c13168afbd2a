/**
 * The installation's sealing key and certificate authority, as the cluster holds them now. They are made when an
 * installation is made and never again: where one is missing the operator writes nothing but that it is missing.
 */
import type { Secret } from '../cluster/index.ts'
import { authoritySecret, sealingKeySecret, systemCertificates, systemNamespace } from '../crds/index.ts'
import type { Authority } from './pki/index.ts'

export type InstallationKeys = { sealingKey: Uint8Array | undefined; authority: Authority | undefined }

type Cache = { get(key: { namespace: string; name: string }): Secret | undefined }

const bytesOf = (secret: Secret | undefined, key: string): Buffer => Buffer.from(secret?.data?.[key] ?? '', 'base64')

const keyBytes = 32

/** The Secrets without which nothing is done. */
export const isInstallationKey = (name: string): boolean => name === sealingKeySecret || name === authoritySecret

const certificates: ReadonlySet<string> = new Set(Object.values(systemCertificates))

/**
 * Of the system namespace's Secrets the operator keeps the values of its keys and certificates, and of those named; of
 * others the name only.
 */
export function withoutForeignData(secret: Secret, named: ReadonlySet<string> = new Set()): Secret {
  const { managedFields: _, ...metadata } = secret.metadata
  if (isInstallationKey(metadata.name) || certificates.has(metadata.name) || named.has(metadata.name))
    return { ...secret, metadata }
  return { apiVersion: secret.apiVersion, kind: secret.kind, metadata }
}

/** Reads the keys out of a cache of the system namespace's Secrets; the same objects as long as they are unchanged. */
export function createKeyReader(secrets: Cache): () => InstallationKeys {
  let last: { sealing: Secret | undefined; authority: Secret | undefined; keys: InstallationKeys } | undefined
  return () => {
    const sealing = secrets.get({ namespace: systemNamespace, name: sealingKeySecret })
    const authority = secrets.get({ namespace: systemNamespace, name: authoritySecret })
    if (last !== undefined && last.sealing === sealing && last.authority === authority) return last.keys
    const sealingKey = bytesOf(sealing, 'key')
    const cert = bytesOf(authority, 'tls.crt').toString('utf8')
    const key = bytesOf(authority, 'tls.key').toString('utf8')
    const keys = {
      sealingKey: sealingKey.length === keyBytes ? sealingKey : undefined,
      authority: cert !== '' && key !== '' ? { cert, key } : undefined,
    }
    last = { sealing, authority, keys }
    return keys
  }
}
