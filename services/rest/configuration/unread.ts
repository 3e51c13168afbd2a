/** Finds PostgREST settings that this service does not read, to warn users who migrate. */
import { namesOf } from '../../configuration/declaration.ts'
import { loadKeys } from './index.ts'
import { keys } from './keys.ts'

const prefix = 'PGRST_'
const appPrefix = 'app-settings-'

/** Environment variables that would set a key of PostgREST. Omits keys that the file or an Espalier variable sets. */
export function unreadVariables(file: string, environment: Record<string, string | undefined>): string[] {
  const { settings, isSet: isGiven } = loadKeys({ file, environment, readFile: () => '' })
  const nameOf = new Map(namesOf(keys).map(({ own, name }) => [name, own]))
  return Object.keys(environment).filter(variable => {
    if (!variable.startsWith(prefix)) return false
    const name = variable.slice(prefix.length).toLowerCase().replaceAll('_', '-')
    if (name.startsWith(appPrefix))
      return !Object.hasOwn(settings.appSettings, name.slice(appPrefix.length).replaceAll('-', '_'))
    const own = nameOf.get(name)
    return own !== undefined && !isGiven(own)
  })
}
