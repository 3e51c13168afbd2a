/** Lists the problems that need a user's attention. Pure. */
import { texts } from '../texts.ts'
import { quantity } from './format.ts'

type Problem = { condition: string; message: string }
type Service = { service_type: string; state?: string; message?: string }
type Database = {
  id: string
  name: string
  status: string
  ip_allowlist: { rules: unknown[]; state?: string }
  services?: Service[]
  storage_used?: number
  storage?: { volume_size?: string }
  import?: { status: string; error?: string }
  attention?: Problem[]
}

/** `what` is the cause, or what the user can do. It is empty if `text` contains the cause. */
type Attention = { key: string; tone: 'bad' | 'warning'; text: string; what: string; databaseId: string }

const fullAt = 0.85

const ofServices = ({ id, name, services = [] }: Database): Attention[] =>
  services.flatMap(({ service_type: type, state, message = '' }): Attention[] => {
    const about = { key: `${id} ${type}`, databaseId: id, what: '' }
    if (state === 'failed') return [{ ...about, tone: 'bad', text: texts.attention.service(name, type, message) }]
    return message === '' ? [] : [{ ...about, tone: 'warning', text: texts.attention.serviceNote(name, type, message) }]
  })

/** Conditions that `ofConditions` lists as warnings. All others are errors. */
const notes = new Set(['RestartPending', 'RetentionHeld', 'ConfigurationRefused', 'SizeApplied', 'ChildrenApplied'])

const conditionText = (condition: string): string =>
  (Object.hasOwn(texts.attention.conditions, condition) ? texts.attention.conditions[condition] : undefined) ??
  condition

/**
 * Lists the conditions that the API reports. Skips `Ready`, which `ofDatabase` uses as a cause. Skips the conditions of
 * services if `ofServices` lists a message.
 */
const ofConditions = ({ id, name, attention = [], services = [] }: Database): Attention[] => {
  const hasServiceMessage = services.some(({ message = '' }) => message !== '')
  return attention
    .filter(({ condition }) => condition !== 'Ready' && !(hasServiceMessage && condition.startsWith('Services')))
    .map(({ condition, message }) => ({
      ...{ key: `${id} ${condition}`, databaseId: id, what: message },
      tone: notes.has(condition) ? 'warning' : 'bad',
      text: texts.attention.condition(name, conditionText(condition)),
    }))
}

function ofDatabase(database: Database): Attention[] {
  const { id, name, status, ip_allowlist: allowlist, storage_used: used = 0 } = database
  const found: Attention[] = []
  const add = (key: string, tone: Attention['tone'], text: string, what: string) =>
    found.push({ key: `${id} ${key}`, tone, text, what, databaseId: id })
  const cause = database.attention?.find(({ condition }) => condition === 'Ready')?.message ?? texts.attention.seeTasks
  if (status === 'failed') add('failed', 'bad', texts.attention.failed(name), cause)
  if (status === 'degraded') add('degraded', 'bad', texts.attention.degraded(name), cause)
  if (database.import?.status === 'failed')
    add('import', 'bad', texts.attention.importFailed(name, database.import.error ?? ''), '')
  const volume = quantity(database.storage?.volume_size ?? '')
  if (volume !== undefined && used > volume * fullAt)
    add('full', 'bad', texts.attention.full(name, Math.floor((used / volume) * 100)), texts.attention.fullWhat)
  found.push(...ofServices(database), ...ofConditions(database))
  if (allowlist.state === 'open') add('open', 'warning', texts.attention.open(name), texts.attention.openWhat)
  if (allowlist.rules.length === 0) add('closed', 'warning', texts.attention.closed(name), texts.attention.closedWhat)
  return found
}

/** Lists the problems of all databases: errors first, then warnings. */
export const attentionOf = (databases: readonly Database[]): Attention[] =>
  databases.flatMap(ofDatabase).sort((a, b) => Number(a.tone === 'warning') - Number(b.tone === 'warning'))
