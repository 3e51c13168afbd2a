/**
 * Accepted findings of a fuzzer, each with its reason. Nearly all are refusals of requests that are valid according to
 * the description. The refusals depend on existing objects, on the time, or on two parameters together, which no schema
 * can express.
 */
import { entityTagsPattern } from '../../values/entity-tags.ts'
import type { Finding } from './schemathesis.ts'

type Exception = {
  check: string
  status: number
  operation?: RegExp
  message: RegExp
  /** The sent input, if the exception is limited to this input. */
  sent?: (headers: Finding['sent']) => boolean
  reason: string
}

const refused = (message: RegExp, reason: string): Exception => ({
  check: 'positive_data_acceptance',
  status: 400,
  message,
  reason,
})

const exceptions: readonly Exception[] = [
  refused(/^(region|size): unknown/, 'the regions and sizes on offer are those of the installation'),
  refused(/^size: this size is (deprecated|retired)/, 'likewise, and they are withdrawn in time'),
  refused(/^name: another database of the account has this name/, 'a name is taken by what there is'),
  refused(/^size: the database has this size already/, 'what a database has is not in the description'),
  refused(/^size: .* storage/, 'a size is refused by the storage that the database has: it never shrinks'),
  refused(/^storage\.autogrow\.max_size: /, 'the least is the storage of the size'),
  refused(/^kind: the durable tier is not enabled/, 'an installation may have it or not'),
  refused(/^source_branch_id: /, 'the branch is to be one of this database, and not too deep'),
  refused(
    /^(backup_id: (is required, or|cannot be combined with|the durable tier)|target_(time|lsn|name): |branch_id: )/,
    'exactly one target is to be within the recovery window',
  ),
  refused(/^the branch is a copy of the data at its creation/, 'which branches have a target'),
  refused(/^source: cannot be combined with source_backup_id/, 'a schema knows one field at a time'),
  refused(/^source\.uri: must (be|have|name|not have)|^source\.uri: (is|has) /, 'a URI has a grammar of its own'),
  refused(/^(source_)?backup_id: the backup is /, 'the backup is to be a completed one of this database'),
  refused(
    /^(region: the backup is|pg_version: the backup has) /,
    'a copy is where its backup is, in the version of its backup',
  ),
  refused(/^expires_at: must be in the future/, 'what the future is changes'),
  refused(/^path: must not contain \/\//, 'the parts of a path have no schema'),
  refused(/^body: is for POST and PATCH only/, 'a schema knows one field at a time'),
  {
    ...refused(
      /^body: unknown field with a backslash in its name/,
      'the API refuses such names in every body, and the description does not limit the names of the arguments of a tool',
    ),
    operation: /\/services\/mcp\/try$/,
  },
  refused(/^start_time: must be before end_time/, 'a schema knows one parameter at a time'),
  refused(/^interval: more than 1000 points/, 'likewise'),
  {
    check: 'positive_data_acceptance',
    status: 400,
    message: /^If-Match: must be /,
    sent: ({ 'if-match': value = '' }) => !entityTagsPattern.test(value),
    reason:
      'in its coverage phase the fuzzer makes headers of letters and digits alone; where a pattern asks for anything else, as for a quote, it sends `0` and calls it sound',
  },
  refused(
    /^services\[\d\]\.service_id: (the database has no|the) \w+ service/,
    'which services a database has, and their ids',
  ),
  refused(/^services\[\d\]\.service_type: duplicate service type/, 'one of a type, which no schema tells'),
  refused(/^services\[\d\]\.service_type: rag needs pgvector/, "which versions have pgvector is the installation's"),
  refused(/^services\[\d\]\.[\w.[\]]+_key: is required /, 'a key is required where none is stored'),
  refused(/^services\[\d\]\.(host_ids|target_nodes): unknown /, 'which hosts and nodes a database has'),
  refused(/^services\[\d\]\.rag_config\.[\w.[\]]+\.provider: anthropic has no embeddings/, 'likewise of providers'),
  refused(
    /^services\[\d\]\.rag_config\.pipelines\[\d+\]\.name: duplicate pipeline name/,
    'no schema knows two entries',
  ),
  refused(/^services\[\d\]\.rag_config\.pipelines\[\d+\]\.tables\[\d+\]\.filter: /, 'SQL has a grammar of its own'),
  refused(/^services\[\d\]\.rag_config\.cors\.allowed_origins\[\d+\]: must be an origin/, 'so have origins'),
  refused(/^services\[\d\]\.rest_config\.cors_origins: must be origins separated by commas/, 'likewise'),
  refused(/^services\[\d\]\.rest_config\.jwt_role_claim_key: /, 'so has the path to a claim'),
  refused(/^services\[\d\]\.rest_config\.jwt_secret: must not be a key in PEM form/, 'likewise'),
  refused(/^services\[\d\]\.rest_config\.db_schemas: must (be|hold|not name)/, 'so has a list of schemas'),
  refused(/^services\[\d\]\.rest_config\.db_anon_role: must be a role of your own/, 'some names are reserved'),
  refused(
    /^services\[\d\]\.rest_config\.db_anon_role: must be the name of a role, of at most 63 bytes/,
    'a schema counts characters, and Postgres bytes',
  ),
  refused(
    /^services\[\d\]\.rag_config\.pipelines\[\d+\]\.tables\[\d+\]\.table: must be the name of a table, .* 63 bytes/,
    'likewise',
  ),
  refused(/^purge: cannot be combined with keep_backups/, 'a schema knows one parameter at a time'),
  refused(/^backup_id: the backup belongs to another database/, 'whose backup it is, is not in the description'),
  refused(
    /^services\[\d\]\.mcp_config\.init_tokens: must (be tokens|contain at most|not contain)/,
    'so has a list of tokens',
  ),
  refused(
    /^services\[\d\]\.mcp_config\.init_users: must (be|contain at most|have passwords|not contain)/,
    'so has one of users',
  ),
  refused(/^service: the database has no \w+ service/, 'likewise'),
  refused(
    /^text: (contains no statement|statement \d+ does not begin|must (not contain|be well-formed|have at most))/,
    'SQL has a grammar of its own',
  ),
  refused(/^(parameters|explain): only for a text of one statement/, 'a schema knows one field at a time'),
  refused(/^parameters\[\d+\]: must (not contain|be well-formed)/, 'Postgres stores no zero bytes'),
  {
    check: 'not_a_server_error',
    status: 503,
    operation: /\/(sql|queries)$/,
    message: /^(the credentials or the certificate authority do not exist yet|Postgres does not run now)/,
    reason: 'no Postgres runs for the databases of the fuzzer',
  },
  refused(/^Idempotency-Key: already used/, 'what a key stood for is not in the description'),
  {
    check: 'positive_data_acceptance',
    status: 412,
    message: /^If-Match: the object has changed/,
    reason: 'which tags an object has is not in the description',
  },
  {
    check: 'use_after_free',
    status: 200,
    operation: /^GET /,
    message: /./,
    reason: 'a deletion goes on after its answer: until it is done the object can be read, and is `deleting`',
  },
]

const messageOf = (body: string): string => {
  try {
    return String(JSON.parse(body).message)
  } catch {
    return body
  }
}

/** Returns findings without an exception, each once. */
export function unexcused(findings: readonly Finding[]): Finding[] {
  const rest = findings.filter(
    ({ operation, check, status, message, sent }) =>
      !exceptions.some(
        exception =>
          exception.check === check &&
          exception.status === status &&
          exception.operation?.test(operation) !== false &&
          exception.sent?.(sent) !== false &&
          exception.message.test(messageOf(message)),
      ),
  )
  return [...new Map(rest.map(one => [`${one.operation} ${one.check} ${one.status} ${one.message}`, one])).values()]
}
