/** The certificate in a Secret, for the server that uses it. */
import type { Draft } from '../../cluster/index.ts'

/** `trust`: the authority certificates with which this server and its clients verify. */
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
