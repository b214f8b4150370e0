"""The pytest plugin: fixtures for the tests of applications that use Sexton."""
