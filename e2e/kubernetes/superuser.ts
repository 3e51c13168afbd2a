/**
 * Connects to a Postgres in the way that only the operator can: with a certificate of the installation's authority. It
 * reads data that no user may see.
 */
import type pg from 'pg'
import { systemNamespace } from '../../crds/index.ts'
import { issueClientCertificate } from '../../operator/pki/index.ts'
import { operatorCommonName, superuser } from '../../operator/postgres/configuration.ts'
import { authoritySecret } from '../../sealing/credentials.ts'
import { type Connection, connect } from '../client.ts'
import type { Provider } from '../providers/provider.ts'

/** Opens a connection for one task, because the gateway closes a connection by certificate after 10 idle seconds. */
export async function asSuperuser<T>(
  { cluster }: Provider,
  connection: Connection,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const secret = await cluster.get('Secret', { namespace: systemNamespace, name: authoritySecret })
  const text = (key: string) => Buffer.from(secret?.data?.[key] ?? '', 'base64').toString()
  const authority = { cert: text('tls.crt'), key: text('tls.key') }
  const certificate = issueClientCertificate(authority, { commonName: operatorCommonName })
  const ssl = { rejectUnauthorized: false, ...certificate }
  const client = await connect(connection, { user: superuser, password: '', ssl })
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
