/**
 * The shapes of the API's responses. Checks keep unknown fields, because `--json` prints the API's object.
 */
import { isPlainText } from '../../values/escape.ts'
import { boolean, list, matching, nullish, number, object, optional, type ShapeType, string } from '../shape.ts'

/** Letters, digits, `_` and `-` only, because ids are part of request paths and of the output. */
const id = matching(/^[\w-]{1,100}$/)
/** Text without control characters, because psql, drivers and .env files use it. */
const plain = (value: unknown): value is string => string(value) && isPlainText(value)

const connection = object({
  username: plain,
  password: plain,
  host: optional(plain),
  port: number,
  database: plain,
})
export type Connection = ShapeType<typeof connection>

const allowlist = object({
  rules: list(object({ cidr: string, label: optional(string) })),
  state: optional(string),
})

const service = object({
  service_type: string,
  state: optional(string),
  uri: nullish(string),
  message: optional(string),
  ip_allowlist: optional(allowlist),
  mcp_config: optional(object({ init_tokens: optional(string) })),
  rest_config: optional(object({})),
  rag_config: optional(object({})),
})
export type Service = ShapeType<typeof service>

export const database = object({
  id,
  name: string,
  status: string,
  region: optional(string),
  size: optional(string),
  pg_version: optional(string),
  created_at: optional(string),
  display_name: nullish(string),
  domain: optional(plain),
  storage_used: optional(number),
  branch_count: optional(number),
  deletion_protection: optional(boolean),
  ip_allowlist: allowlist,
  connection: optional(connection),
  services: optional(list(service)),
})
export type Database = ShapeType<typeof database>

export const branch = object({
  id,
  name: string,
  status: string,
  created_at: optional(string),
  expires_at: nullish(string),
  parent_branch_id: nullish(string),
  display_name: nullish(string),
  ip_allowlist: optional(allowlist),
  domain: optional(plain),
  connection: optional(connection),
})
export type Branch = ShapeType<typeof branch>

export const backup = object({
  id,
  database_id: string,
  name: string,
  created_at: string,
  finished_at: optional(string),
  status: string,
  kind: string,
  purpose: optional(string),
})
export type Backup = ShapeType<typeof backup>

export const task = object({
  id,
  created_at: string,
  subject_kind: string,
  subject_id: string,
  /** Absent in responses of earlier versions of the API. */
  subject_name: optional(string),
  name: string,
  messages: list(object({ text: string })),
  status: string,
  error: optional(string),
})
export type Task = ShapeType<typeof task>

export const auditEntry = object({
  id,
  time: string,
  member: optional(string),
  method: string,
  path: string,
  status: number,
  outcome: string,
  sql: optional(
    object({
      mode: string,
      role: string,
      statements: number,
      result: optional(string),
      sqlstate: optional(string),
    }),
  ),
  service: optional(
    object({
      type: string,
      method: optional(string),
      tool: optional(string),
      pipeline: optional(string),
      result: optional(string),
      status: optional(number),
    }),
  ),
})
export type AuditEntry = ShapeType<typeof auditEntry>

export const size = object({
  id,
  name: string,
  version: number,
  status: string,
  cpu_limit: string,
  memory_limit: string,
  storage_size: string,
  connections: number,
  pricing: optional(object({ price_amount: number, currency: string, billing_interval: string })),
})
export type Size = ShapeType<typeof size>

export const named = object({ region: string })
export const clientAddress = object({ ip_address: string })

export const logEntry = object({
  timestamp: string,
  level: string,
  message: string,
  pid: optional(number),
  line_num: optional(number),
  detail: optional(string),
  hint: optional(string),
  statement: optional(string),
})
export type LogEntry = ShapeType<typeof logEntry>

const cell = (value: unknown): value is string | number | null => value === null || string(value) || number(value)

export const series = object({
  name: string,
  columns: list(string),
  values: list(list(cell)),
})
export type Series = ShapeType<typeof series>

/** The login methods of an API. */
export const loginOptions = object({
  token: optional(boolean),
  oidc: optional(
    object({
      issuer: string,
      client_id: string,
      scope: string,
      audience: optional(string),
    }),
  ),
})
export type OidcLogin = NonNullable<ShapeType<typeof loginOptions>['oidc']>
