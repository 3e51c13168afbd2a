/**
 * The response to a read of one database, with `connection`. The text is cached as long as the Secret with the
 * password, so that repeated reads of a database cost one lookup.
 */
import type { Kinds, Secret } from '../../cluster/index.ts'
import type { ApiContext } from '../context.ts'
import { entityTag } from '../preconditions.ts'
import { type UserType, userTypes } from '../schemas/common.ts'
import { awaitsPassword, renderConnection } from './credentials.ts'
import { withConnection } from './render.ts'

type Tenant = Kinds['Tenant'] | undefined

export type SingleAnswer = { text: string; containsSecret: boolean; tag: string }
/** @throws ApiError 503 if the password cannot be decrypted */
type AnswerSingle = (
  database: Kinds['ManagedDatabase'],
  tenant: Tenant,
  userType: UserType,
) => SingleAnswer | Promise<SingleAnswer>

type Plain = Pick<SingleAnswer, 'text' | 'containsSecret'>
type CachedAnswer = { plain: string; answer: SingleAnswer }

/** `plain`: the text without `connection`, and whether it already contains secrets of services. */
const withoutPassword = ({ text, containsSecret }: Plain): SingleAnswer => ({
  text,
  containsSecret,
  tag: entityTag(text),
})

export type Singles = {
  answer: AnswerSingle
  /** All bodies that a read of the database can return now, for any user. @throws ApiError 503 */
  bodies: (database: Kinds['ManagedDatabase'], tenant: Tenant) => Promise<string[]>
}

export function createSingleAnswers(context: ApiContext): Singles {
  const { databaseText, readCredentials, openPassword, serviceSecrets } = context
  const cached = new WeakMap<Secret, Map<UserType, CachedAnswer>>()

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
    const answer = { text, containsSecret: true, tag: entityTag(text) }
    const ofSecret = cached.get(secret) ?? new Map<UserType, CachedAnswer>()
    cached.set(secret, ofSecret.set(userType, { plain: plain.text, answer }))
    return answer
  }

  const answerSingle: AnswerSingle = (database, tenant, userType) => {
    const text = databaseText(database, tenant)
    // A database without services is the common case, so it is answered synchronously.
    if (database.spec.services.length === 0) return answerWith({ text, containsSecret: false }, database, userType)
    return serviceSecrets.shown(database, text).then(plain => answerWith(plain, database, userType))
  }

  function answerWith(plain: Plain, database: Kinds['ManagedDatabase'], userType: UserType) {
    if (database.status?.endpoint === undefined) return withoutPassword(plain)
    const found = readCredentials(database)
    if (found instanceof Promise) return found.then(secret => make(plain, database, secret, userType))
    const before = cached.get(found)?.get(userType)
    // The text is the same object unless the database or its related objects, including its endpoint, have changed.
    return before !== undefined && before.plain === plain.text ? before.answer : make(plain, database, found, userType)
  }
  return {
    answer: answerSingle,
    bodies: async (database, tenant) =>
      (await Promise.all(userTypes.map(userType => answerSingle(database, tenant, userType)))).map(({ text }) => text),
  }
}
