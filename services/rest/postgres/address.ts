/** `db-uri` as `pg` takes it: a URI, or libpq's `keyword=value` pairs (Postgres manual section 32.1.1). */
import type { ClientConfig } from 'pg'

const keywords: Record<string, string> = {
  host: 'host',
  hostaddr: 'host',
  port: 'port',
  dbname: 'database',
  user: 'user',
  password: 'password',
  application_name: 'application_name',
  options: 'options',
  connect_timeout: 'connect_timeout',
  sslmode: 'sslmode',
  sslcert: 'sslcert',
  sslkey: 'sslkey',
  sslrootcert: 'sslrootcert',
}

function fromPairs(text: string): string {
  const found = new URLSearchParams()
  const pair = /\s*([a-z_]+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s'\\]|\\.)*))\s*/gy
  while (pair.lastIndex < text.length) {
    const parts = pair.exec(text)
    const keyword = parts?.[1] === undefined ? undefined : keywords[parts[1]]
    if (keyword === undefined) throw new Error('db-uri must be a URI, or keyword=value pairs that are known')
    found.set(keyword, (parts?.[2] ?? parts?.[3] ?? '').replace(/\\(.)/g, '$1'))
  }
  return `postgresql://?${found}`
}

/** What a connection is made with. TLS modes mean what they mean to libpq: `require` encrypts, `verify-full` checks the certificate as well. */
export function clientConfig(dbUri: string, connectTimeoutMs: number): ClientConfig {
  const uri = /^postgres(ql)?:\/\//.test(dbUri) || dbUri === '' ? dbUri : fromPairs(dbUri)
  const isPlain = uri === '' || uri === 'postgresql://' || uri === 'postgres://'
  const compatible = /[?&]sslmode=/.test(uri) ? `${uri}&uselibpqcompat=true` : uri
  return {
    ...(isPlain ? {} : { connectionString: compatible }),
    fallback_application_name: 'espalier rest',
    keepAlive: true,
    connectionTimeoutMillis: connectTimeoutMs,
  }
}
