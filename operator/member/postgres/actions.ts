/** Actions in a member's Postgres. */
export type PostgresAction =
  /**
   * Sets roles and passwords. `opens`: afterwards also opens a closed copy to clients, like `open`. `keepsPasswords`:
   * does not change the passwords of users' roles.
   */
  | { do: 'ensure-roles'; opens?: true; keepsPasswords?: true }
  /** Removes the source's slots and subscriptions from a closed copy. */
  | { do: 'detach' }
  /** Opens a closed copy to clients. */
  | { do: 'open' }
  /** Reloads Postgres's certificate and configuration. */
  | { do: 'reload' }
