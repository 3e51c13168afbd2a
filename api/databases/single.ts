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

export type SingleAnswer = { text: string; holdsPassword: boolean; tag: string }
/** @throws ApiError 503 where the password cannot be opened */
type AnswerSingle = (
  database: Kinds['ManagedDatabase'],
  tenant: Tenant,
  userType: UserType,
) => SingleAnswer | Promise<SingleAnswer>

type Kept = { plain: string; answer: SingleAnswer }

const withoutPassword = (text: string): SingleAnswer => ({ text, holdsPassword: false, tag: entityTag(text) })

export type Singles = {
  answer: AnswerSingle
  /** Every body that a read of the database can have now, whoever it is for. @throws ApiError 503 */
  bodies: (database: Kinds['ManagedDatabase'], tenant: Tenant) => Promise<string[]>
}

export function createSingleAnswers({ databaseText, readCredentials, openPassword }: ApiContext): Singles {
  const kept = new WeakMap<Secret, Map<UserType, Kept>>()

  async function make(
    plain: string,
    database: Kinds['ManagedDatabase'],
    secret: Secret | undefined,
    userType: UserType,
  ) {
    const endpoint = database.status?.endpoint
    if (secret !== undefined && awaitsPassword(database, secret, userType)) return withoutPassword(plain)
    const password = secret && (await openPassword(secret, userType))
    if (secret === undefined || endpoint === undefined || password === undefined) return withoutPassword(plain)
    const text = withConnection(plain, renderConnection(endpoint, userType, password))
    const answer = { text, holdsPassword: true, tag: entityTag(text) }
    const ofSecret = kept.get(secret) ?? new Map<UserType, Kept>()
    kept.set(secret, ofSecret.set(userType, { plain, answer }))
    return answer
  }

  const answerSingle: AnswerSingle = (database, tenant, userType) => {
    const plain = databaseText(database, tenant)
    if (database.status?.endpoint === undefined) return withoutPassword(plain)
    const found = readCredentials(database)
    if (found instanceof Promise) return found.then(secret => make(plain, database, secret, userType))
    const before = kept.get(found)?.get(userType)
    // The same text object unless the database or what surrounds it has changed, its endpoint included.
    return before !== undefined && before.plain === plain ? before.answer : make(plain, database, found, userType)
  }
  return {
    answer: answerSingle,
    bodies: async (database, tenant) =>
      (await Promise.all(userTypes.map(userType => answerSingle(database, tenant, userType)))).map(({ text }) => text),
  }
}
