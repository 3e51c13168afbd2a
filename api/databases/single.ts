/**
 * The answer to a read of one database, `connection` included. The whole text is kept beside the Secret that its
 * password came from, and no longer, so that the same database read again costs a look-up.
 */
import type { Kinds, Secret } from '../../cluster/index.ts'
import type { ApiContext } from '../context.ts'
import { entityTag } from '../preconditions.ts'
import { type UserType, userTypes } from '../schemas/common.ts'
import { awaitsPassword, renderConnection } from './credentials.ts'
import { withConnection } from './render.ts'

type Tenant = Kinds['Tenant'] | undefined

export type SingleAnswer = { text: string; holdsSecret: boolean; tag: string }
/** @throws ApiError 503 where the password cannot be opened */
type AnswerSingle = (
  database: Kinds['ManagedDatabase'],
  tenant: Tenant,
  userType: UserType,
) => SingleAnswer | Promise<SingleAnswer>

type Plain = Pick<SingleAnswer, 'text' | 'holdsSecret'>
type Kept = { plain: string; answer: SingleAnswer }

/** `plain`: the text without `connection`, and whether it holds secrets of services already. */
const withoutPassword = ({ text, holdsSecret }: Plain): SingleAnswer => ({ text, holdsSecret, tag: entityTag(text) })

export type Singles = {
  answer: AnswerSingle
  /** Every body that a read of the database can have now, whoever it is for. @throws ApiError 503 */
  bodies: (database: Kinds['ManagedDatabase'], tenant: Tenant) => Promise<string[]>
}

export function createSingleAnswers(context: ApiContext): Singles {
  const { databaseText, readCredentials, openPassword, serviceSecrets } = context
  const kept = new WeakMap<Secret, Map<UserType, Kept>>()

  async function make(
    plain: Plain,
    database: Kinds['ManagedDatabase'],
    secret: Secret | undefined,
    userType: UserType,
  ) {
    const endpoint = database.status?.endpoint
    if (secret !== undefined && awaitsPassword(database, secret, userType)) return withoutPassword(plain)
    const password = secret && (await openPassword(secret, userType))
    if (secret === undefined || endpoint === undefined || password === undefined) return withoutPassword(plain)
    const text = withConnection(plain.text, renderConnection(endpoint, userType, password))
    const answer = { text, holdsSecret: true, tag: entityTag(text) }
    const ofSecret = kept.get(secret) ?? new Map<UserType, Kept>()
    kept.set(secret, ofSecret.set(userType, { plain: plain.text, answer }))
    return answer
  }

  const answerSingle: AnswerSingle = (database, tenant, userType) => {
    const text = databaseText(database, tenant)
    // A database without services, as most are, is answered at once.
    if (database.spec.services.length === 0) return answerWith({ text, holdsSecret: false }, database, userType)
    return serviceSecrets.shown(database, text).then(plain => answerWith(plain, database, userType))
  }

  function answerWith(plain: Plain, database: Kinds['ManagedDatabase'], userType: UserType) {
    if (database.status?.endpoint === undefined) return withoutPassword(plain)
    const found = readCredentials(database)
    if (found instanceof Promise) return found.then(secret => make(plain, database, secret, userType))
    const before = kept.get(found)?.get(userType)
    // The same text object unless the database or what surrounds it has changed, its endpoint included.
    return before !== undefined && before.plain === plain.text ? before.answer : make(plain, database, found, userType)
  }
  return {
    answer: answerSingle,
    bodies: async (database, tenant) =>
      (await Promise.all(userTypes.map(userType => answerSingle(database, tenant, userType)))).map(({ text }) => text),
  }
}
