/** Finds what was set for PostgREST and is not read here, so that a user who moves over learns of it. */
import { namesOf } from '../../configuration/declaration.ts'
import { loadKeys } from './index.ts'
import { keys } from './keys.ts'

const prefix = 'PGRST_'
const appPrefix = 'app-settings-'

/** Variables of the environment that would set a key of PostgREST's, where neither the file nor a variable of our own sets it. */
export function unreadVariables(file: string, environment: Record<string, string | undefined>): string[] {
  const { settings, isGiven } = loadKeys({ file, environment, readFile: () => '' })
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
