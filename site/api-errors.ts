/** The reference page of the API's errors: statuses, reasons, and the messages as the sources create them. */
import { heading, table } from './markdown.ts'

type Message = { status: number; text: string }

/** The functions of api/errors.ts with a message as their first argument. */
const statusOf: Readonly<Record<string, number>> = {
  badRequest: 400,
  unauthorized: 401,
  forbidden: 403,
  notFound: 404,
  conflict: 409,
  preconditionFailed: 412,
  unavailable: 503,
}

/** A string, or a template without templates in its values. */
const literal = /'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/.source
const named = new RegExp(
  `\\b(${Object.keys(statusOf).join('|')})\\(\\s*(?:[^'"\`;{}]*\\?\\s*)?(${literal})(?:\\s*:\\s*(${literal}))?`,
  'g',
)
const numbered = new RegExp(`\\bnew ApiError\\(\\s*(\\d{3}),\\s*(${literal})`, 'g')
const pairs = new RegExp(`\\[(4\\d\\d|5\\d\\d), (${literal})\\]`, 'g')

/** Values of a template become `…`: only the API knows them. */
const textOf = (source: string): string =>
  source
    .slice(1, -1)
    .replaceAll(/(?:\$\{[^}]*\})+/g, '…')
    .replaceAll(/\\(.)/g, '$1')

/** Whether it has more than values and code. */
const isReadable = (text: string): boolean => /[a-z]{2,} [a-z]{2,}/.test(text) && !/\$\{|=>/.test(text)

/** The messages of errors that a source file creates, where they are written out. */
export function messagesIn(source: string): Message[] {
  const byName = [...source.matchAll(named)].flatMap(([, name = '', ...texts]) =>
    texts.flatMap(text => {
      if (text === undefined) return []
      return [{ status: statusOf[name] ?? 0, text: `${textOf(text)}${name === 'notFound' ? ' not found' : ''}` }]
    }),
  )
  const byNumber = [...source.matchAll(numbered), ...source.matchAll(pairs)].map(([, status, text = '']) => ({
    status: Number(status),
    text: textOf(text),
  }))
  return [...byName, ...byNumber].filter(({ text }) => isReadable(text))
}

const statuses: readonly (readonly [status: number, meaning: string, action: string])[] = [
  [400, 'The request is invalid. The message begins with the field.', 'Change the request.'],
  [401, 'The token is missing or invalid.', 'Get a new token: `espalier login`, or [tokens](../api.md#tokens).'],
  [403, 'The account may not do this. `reason` is set if the account itself is the cause.', 'Ask an administrator.'],
  [404, 'The object or the path does not exist, or belongs to another account.', 'Check the id and the path.'],
  [405, 'The path has no such method. `Allow` lists those that it has.', 'Use one of them.'],
  [
    409,
    'The object is busy, protected, or in a state that does not allow the request.',
    'Retry if `Retry-After` is set; otherwise do what the message says.',
  ],
  [412, 'The object has changed since it was read (`If-Match`).', 'Read it again, then decide.'],
  [413, 'The body is longer than 1 MiB.', 'Send less.'],
  [415, 'The body is not JSON in UTF-8, or is compressed.', 'Send `Content-Type: application/json`.'],
  [429, 'Too many requests, connections or streams.', 'Wait for the seconds in `Retry-After`.'],
  [500, 'An error of Espalier.', 'Search the log of the API for the `X-Request-Id` of the response.'],
  [
    503,
    'The cluster, the database or one of its agents does not respond now.',
    'Retry after the seconds in `Retry-After`.',
  ],
]

const reasons: Readonly<Record<string, string>> = {
  membership_revoked: 'The membership of the account was revoked.',
  plan_expired: 'The plan of the account has expired. Reads and deletes are still possible.',
  developer_plan_backup: 'The plan does not include on-demand backups and the durable tier.',
}

/** `known`: the reasons that the API has. `sources`: the text of its files. */
export function apiErrorsPage(known: readonly string[], sources: readonly string[]): string {
  const messages = sources.flatMap(messagesIn)
  const textsOf = (status: number): string[] => [
    ...new Set(messages.filter(message => message.status === status).map(({ text }) => text)),
  ]
  return [
    heading(1, 'API errors'),
    'An error has the body `{"code": 409, "message": "..."}`. `code` is the HTTP status, and `message` is for people: it can change in any version. Programs should read the status and, if it is set, `reason`.',
    table(
      ['status', 'meaning', 'what to do'],
      statuses.map(([status, meaning, action]) => [String(status), meaning, action]),
    ),
    heading(2, 'Reasons'),
    'New reasons can be added.',
    table(
      ['`reason`', 'meaning'],
      known.map(reason => [`\`${reason}\``, reasons[reason] ?? '']),
    ),
    heading(2, 'Messages'),
    'Search for the message that you got. `…` stands for a value. Messages about the form of one field, such as `name: is required`, are not listed: the description of the API (`/docs`) has the rule of each field.',
    ...statuses.flatMap(([status]) => {
      const texts = textsOf(status).toSorted()
      return texts.length === 0
        ? []
        : [heading(3, String(status)), texts.map(text => `- \`${text.replaceAll('`', "'")}\``).join('\n')]
    }),
  ].join('\n\n')
}
