/**
 * The Secret with which a member's agent logs in to the archive, and to Postgres for replication. It contains a client
 * certificate for one incarnation of one database. The certificate gives access only to that incarnation's objects.
 */
import { X509Certificate } from 'node:crypto'
import type { Draft, Secret } from '../../../cluster/index.ts'
import { childNames } from '../../../crds/index.ts'
import { childMetadata } from '../../objects/ownership.ts'
import { isIssuedBy, issueClientCertificate, needsRenewal } from '../../pki/index.ts'
import type { Trust } from '../../pki/trust.ts'
import { archiverCommonName } from '../../postgres/configuration.ts'
import { type Member, memberLabels } from '../member.ts'

const days = 90
const files = { certificate: 'archive.crt', key: 'archive.key', authority: 'ca.crt' } as const

/** The URI in the certificate, which the archive checks. */
const identity = ({ owner, incarnation }: Member): string => `urn:espalier:archive:${owner.id}:${incarnation}`

const base64 = (text: string): string => Buffer.from(text).toString('base64')
const text = (secret: Secret, key: string): string => Buffer.from(secret.data?.[key] ?? '', 'base64').toString('utf8')

export function archiveSecretDraft(member: Member, trust: Trust, now: () => number): Draft<'Secret'> {
  const { owner, incarnation, number } = member
  const metadata = childMetadata(owner, childNames.archive(owner.id, incarnation, number), 'archive')
  const request = { commonName: archiverCommonName(owner.id), uris: [identity(member)], days }
  const { cert, key } = issueClientCertificate(trust, request, now)
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    type: 'Opaque',
    metadata: { ...metadata, labels: { ...metadata.labels, ...memberLabels(member) } },
    data: { [files.certificate]: base64(cert), [files.key]: base64(key), [files.authority]: base64(trust.bundle) },
  }
}

/** Verifying a signature is slow, so the result is cached per Secret object. */
const checked = new WeakMap<Secret, { trust: Trust; isIssued: boolean }>()

function isIssued(secret: Secret, member: Member, trust: Trust): boolean {
  const cert = text(secret, files.certificate)
  if (text(secret, files.authority) !== trust.bundle || !isIssuedBy(trust, { cert, key: text(secret, files.key) }))
    return false
  const { subject, subjectAltName } = new X509Certificate(cert)
  return subject === `CN=${archiverCommonName(member.owner.id)}` && subjectAltName === `URI:${identity(member)}`
}

/**
 * Whether the Secret contains the member's certificate under this trust, and the certificate is not due for renewal.
 */
export function isGoodArchiveSecret(secret: Secret, member: Member, trust: Trust, now: () => number): boolean {
  let known = checked.get(secret)
  if (known?.trust !== trust) {
    known = { trust, isIssued: isIssued(secret, member, trust) }
    checked.set(secret, known)
  }
  return known.isIssued && !needsRenewal(text(secret, files.certificate), now)
}
