import { expect, test } from 'vitest'
import { unreadVariables } from './unread.ts'

const environment = {
  PGRST_DB_URI: 'postgresql://',
  PGRST_DB_SCHEMA: 'api',
  PGRST_JWT_SECRET: 'x',
  PGRST_LOG_LEVEL: 'info',
  PGRST_APP_SETTINGS_KEY: 'y',
  PGRST_SERVICE_HOST: '10.0.0.1',
  ESPALIER_REST_LOG_LEVEL: 'warn',
}

test('the service reports variables that only PostgREST would read, unless another source sets their key', () => {
  expect(unreadVariables('jwt-secret = "$(PGRST_JWT_SECRET)"', environment)).toEqual([
    'PGRST_DB_URI',
    'PGRST_DB_SCHEMA',
    'PGRST_APP_SETTINGS_KEY',
  ])
  expect(unreadVariables('db-uri = "host=h"\ndb-schemas = "api"\napp.settings.key = ""', environment)).toEqual([
    'PGRST_JWT_SECRET',
  ])
  expect(unreadVariables('', { ESPALIER_REST_DB_URI: 'x', PGRST_NOTHING: 'x', PATH: '/bin' })).toEqual([])
})
