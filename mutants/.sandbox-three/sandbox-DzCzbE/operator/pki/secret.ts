/** A certificate as a Secret holds it, for whoever serves with it. */
// @ts-nocheck

import type { Draft } from '../../cluster/index.ts'

/** `trust`: the certificates of the authorities that clients of this server and it itself verify with. */
export function tlsSecret(
  metadata: Draft<'Secret'>['metadata'],
  { cert, key, trust }: { cert: string; key: string; trust: string },
): Draft<'Secret'> {
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    type: 'kubernetes.io/tls',
    metadata,
    data: { 'tls.crt': base64(cert), 'tls.key': base64(key), 'ca.crt': base64(trust) },
  }
}
