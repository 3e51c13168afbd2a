/**
 * What a fuzzer may find without being right, each with its reason. Nearly all are refusals of requests that are sound by
 * the description: they depend on what there is, on the time, or on two parameters at once, which no schema can tell.
 */
import { entityTagsPattern } from '../../values/entity-tags.ts'
import type { Finding } from './schemathesis.ts'

type Exception = {
  check: string
  status: number
  operation?: RegExp
  message: RegExp
  /** What was sent, where the exception is only of that. */
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
  refused(/^(region|size): there is no such/, 'the regions and sizes on offer are those of the installation'),
  refused(/^size: this size is (deprecated|retired)/, 'likewise, and they are withdrawn in time'),
  refused(/^name: another database of the account has this name/, 'a name is taken by what there is'),
  refused(/^size: the database has this size already/, 'what a database has is not in the description'),
  refused(/^size: .* storage/, 'a size is refused by the storage that the database has: it never shrinks'),
  refused(/^storage\.autogrow\.max_size: /, 'the least is the storage of the size'),
  refused(/^kind: the durable tier is not enabled/, 'an installation may have it or not'),
  refused(/^source_branch_id: /, 'the branch is to be one of this database, and not too deep'),
  refused(/^(source_)?backup_id: the backup is /, 'the backup is to be a completed one of this database'),
  refused(/^(region|pg_version): the backup is /, 'a copy is where its backup is, in the version of its backup'),
  refused(/^expires_at: must be in the future/, 'what the future is changes'),
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
  refused(/^services\[\d\]\.service_id: (there is no|the) \w+ service/, 'which services a database has, and their ids'),
  refused(
    /^services\[\d\]\.service_type: there is another service of this type/,
    'one of a type, which no schema tells',
  ),
  refused(/^services\[\d\]\.service_type: rag needs pgvector/, "which versions have pgvector is the installation's"),
  refused(/^services\[\d\]\.[\w.[\]]+_key: is required /, 'a key is required where none is stored'),
  refused(/^services\[\d\]\.(host_ids|target_nodes): unknown /, 'which hosts and nodes a database has'),
  refused(/^services\[\d\]\.rag_config\.[\w.[\]]+\.provider: anthropic has no embeddings/, 'likewise of providers'),
  refused(/^services\[\d\]\.rag_config\.pipelines\[\d+\]\.name: names another pipeline/, 'no schema knows two entries'),
  refused(/^services\[\d\]\.rag_config\.pipelines\[\d+\]\.tables\[\d+\]\.filter: /, 'SQL has a grammar of its own'),
  refused(/^services\[\d\]\.rag_config\.cors\.allowed_origins\[\d+\]: must be an origin/, 'so have origins'),
  refused(/^services\[\d\]\.rest_config\.cors_origins: must be origins separated by commas/, 'likewise'),
  refused(/^services\[\d\]\.rest_config\.jwt_role_claim_key: /, 'so has the path to a claim'),
  refused(/^services\[\d\]\.rest_config\.jwt_secret: must not be a key in PEM form/, 'likewise'),
  refused(/^services\[\d\]\.rest_config\.db_schemas: must (be|hold|not name)/, 'so has a list of schemas'),
  refused(/^services\[\d\]\.rest_config\.db_anon_role: must be a role of your own/, 'some names are reserved'),
  refused(
    /^services\[\d\]\.mcp_config\.init_tokens: must (be tokens|hold at most|not hold)/,
    'so has a list of tokens',
  ),
  refused(
    /^services\[\d\]\.mcp_config\.init_users: must (be|hold at most|have passwords|not hold)/,
    'so has one of users',
  ),
  refused(/^service: there is no \w+ service here/, 'likewise'),
  refused(/^Idempotency-Key: was already used/, 'what a key stood for is not in the description'),
  {
    check: 'positive_data_acceptance',
    status: 412,
    message: /^If-Match: the object has changed since/,
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

/** Those that nothing excuses, each once. */
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
