/** Builds the code with which programs connect to a database. Pure. */
type Connection = { username: string; password: string; host: string; port: number; database: string; ca: string }

export const snippetNames = ['psql', 'env', 'prisma', 'node', 'python', 'jdbc', 'go'] as const
export type SnippetName = (typeof snippetNames)[number]

const encode = encodeURIComponent
/** Returns the host for a URI. A URI has brackets around an IPv6 address. */
const inUri = (host: string): string => (host.includes(':') ? `[${host}]` : host)

type Addressed = Omit<Connection, 'password' | 'ca'> & { password?: string }

export function uriOf({ username, password, host, port, database }: Addressed, parameters = ''): string {
  const user = password === undefined ? encode(username) : `${encode(username)}:${encode(password)}`
  return `postgresql://${user}@${inUri(host)}:${port}/${encode(database)}${parameters}`
}

const verify = ({ ca }: Pick<Connection, 'ca'>): string => `?sslmode=verify-full&sslrootcert=${encode(ca)}`

/** Returns a string literal for JavaScript, Python, Go or Java. All of them accept JSON strings. */
const quoted = (text: string): string => JSON.stringify(text)
/** Quotes a text as one shell word. */
export const shellWord = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

const writers: Record<SnippetName, (connection: Connection) => string> = {
  // The command has no password, because other users can see a command line, and the history of the shell keeps it.
  psql: ({ password: _, ...connection }) => `psql ${shellWord(uriOf(connection, verify(connection)))}`,
  env: ({ username, password, host, port, database, ca }) =>
    [
      `PGHOST=${shellWord(host)}`,
      `PGPORT=${port}`,
      `PGDATABASE=${shellWord(database)}`,
      `PGUSER=${shellWord(username)}`,
      `PGPASSWORD=${shellWord(password)}`,
      'PGSSLMODE=verify-full',
      `PGSSLROOTCERT=${shellWord(ca)}`,
    ].join('\n'),
  prisma: connection =>
    `# .env\nDATABASE_URL=${quoted(uriOf(connection, `?sslmode=require&sslaccept=strict&sslcert=${encode(connection.ca)}`))}\n\n# schema.prisma\ndatasource db {\n  provider = "postgresql"\n  url      = env("DATABASE_URL")\n}`,
  node: ({ username, password, host, port, database, ca }) =>
    `import { readFileSync } from 'node:fs'
import pg from 'pg'

const pool = new pg.Pool({
  host: ${quoted(host)},
  port: ${port},
  database: ${quoted(database)},
  user: ${quoted(username)},
  password: ${quoted(password)},
  ssl: { ca: readFileSync(${quoted(ca)}, 'utf8') },
})
const { rows } = await pool.query('SELECT now()')`,
  python: ({ username, password, host, port, database, ca }) =>
    `import psycopg

with psycopg.connect(
    host=${quoted(host)},
    port=${port},
    dbname=${quoted(database)},
    user=${quoted(username)},
    password=${quoted(password)},
    sslmode="verify-full",
    sslrootcert=${quoted(ca)},
) as connection:
    print(connection.execute("SELECT now()").fetchone())`,
  jdbc: ({ username, password, host, port, database, ca }) =>
    `String url = ${quoted(`jdbc:postgresql://${inUri(host)}:${port}/${encode(database)}?sslmode=verify-full&sslrootcert=${encode(ca)}`)};
Connection connection = DriverManager.getConnection(url, ${quoted(username)}, ${quoted(password)});`,
  go: connection =>
    `import (
	"context"
	"github.com/jackc/pgx/v5"
)

connection, err := pgx.Connect(context.Background(), ${quoted(uriOf(connection, verify(connection)))})`,
}

export const snippet = (name: SnippetName, connection: Connection): string => writers[name](connection)

/** The text that the page shows until the user reveals the password. */
export const hiddenPassword = '••••••••'
